"""A question before something that cannot be taken back: what it will cost, and a key for each answer."""

from __future__ import annotations

from collections.abc import Mapping

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from kvtop.app.screens.dialog import Dialog


class Ask(Dialog[str]):
    """``answers``: key → (result, word for it); ``enter`` is the first. None when it was left alone."""

    DEFAULT_CSS = """
    Ask > .box { width: 60; border: round $warning; }
    Ask .answers { margin-top: 1; }
    """
    BINDINGS = [Binding("n,q", "leave", "no", show=False)]

    def __init__(self, question: str, consequence: str, answers: Mapping[str, tuple[str, str]]) -> None:
        super().__init__()
        self._question = question
        self._consequence = consequence
        self._answers = answers

    def compose(self) -> ComposeResult:
        keys = [((key, "bold $warning"), f" {word}    ") for key, (_, word) in self._answers.items()]
        answers = Content.assemble(*(part for pair in keys for part in pair), ("n", "bold $primary"), " leave it")
        with Vertical(classes="box") as box:
            box.border_title = Content(self._question)
            yield Static(self._consequence, markup=False)
            yield Static(answers, classes="answers")

    def on_key(self, event: events.Key) -> None:
        key = next(iter(self._answers)) if event.key == "enter" else event.key
        if key in self._answers:
            event.stop()
            self.dismiss(self._answers[key][0])
