"""A yes-or-no question before something that cannot be taken back."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from kvtop.app.screens.dialog import Dialog


class Ask(Dialog[bool]):
    """Result: True for yes, False for no, None when it was closed. ``enter`` and ``y`` are yes."""

    DEFAULT_CSS = """
    Ask > .box { width: 60; border: round $warning; }
    Ask .answers { margin-top: 1; }
    """
    BINDINGS = [
        Binding("y,enter", "answer(True)", "yes", show=False),
        Binding("n,q", "answer(False)", "no", show=False),
    ]

    def __init__(self, question: str, consequence: str, verb: str) -> None:
        super().__init__()
        self._question = question
        self._consequence = consequence
        self._verb = verb

    def compose(self) -> ComposeResult:
        answers = Content.assemble(("y", "bold $warning"), f" {self._verb}    ", ("n", "bold $primary"), " leave it")
        with Vertical(classes="box") as box:
            box.border_title = Content(self._question)
            yield Static(self._consequence, markup=False)
            yield Static(answers, classes="answers")

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)
