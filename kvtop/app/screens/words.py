"""A page of words to read: a reason, a traceback. Text is shown as it is, never as markup."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from kvtop.app.screens.dialog import Dialog


class Words(Dialog[None]):
    DEFAULT_CSS = """
    Words > .box { width: auto; min-width: 40; max-width: 100; scrollbar-size-vertical: 1; }
    Words Static { width: auto; max-width: 94; }
    """
    BINDINGS = [Binding("q,enter", "leave", "back", show=False)]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box") as box:
            box.border_title = Content(self._title)
            box.border_subtitle = Content("esc back")
            yield Static(self._text, markup=False)
