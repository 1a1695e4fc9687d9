"""The operating-system analogy as a page: every term of paging, what it is here, where it is seen, where it ends."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from kvtop.app.screens.dialog import Dialog
from kvtop.lessons.analogy import DIFFERENCES, TERMS


class Analogy(Dialog[None]):
    DEFAULT_CSS = """
    Analogy > .box { width: 92; scrollbar-size-vertical: 1; }
    Analogy Static { margin-bottom: 1; }
    """
    BINDINGS = [Binding("A,q,enter", "leave", "back", show=False)]

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box") as box:
            box.border_title = Content("the operating-system analogy, term by term")
            box.border_subtitle = Content("↑ ↓ scroll · esc back")
            terms = [
                Content.assemble(
                    (term.system, "bold"), (" ↔ ", "$text-muted"), (term.engine, "bold $primary"),
                    (f"\n  {term.seen}", "$text-muted"),
                )
                for term in TERMS
            ]  # fmt: skip
            yield Static(Content("\n").join(terms))
            yield Static(Content("Where it ends").stylize("bold $primary"))
            yield Static(Content("\n").join(Content(f"· {words}") for words in DIFFERENCES))
