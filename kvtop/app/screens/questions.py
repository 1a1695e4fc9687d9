"""The page of questions and answers; a letter goes to the scene of a lesson that shows it on the running engine."""

from __future__ import annotations

from string import ascii_lowercase

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from kvtop.app.screens.dialog import Dialog
from kvtop.lessons.course import Course
from kvtop.lessons.questions import Explained, load_questions


class Questions(Dialog[Explained]):
    """Result: the question that is to be shown live. ``course`` is None where no lessons are played."""

    DEFAULT_CSS = """
    Questions > .box { width: 88; scrollbar-size-vertical: 1; }
    Questions Static { margin-bottom: 1; }
    """
    BINDINGS = [Binding("Q,q,enter", "leave", "back", show=False)]

    def __init__(self, course: Course | None) -> None:
        super().__init__()
        self._course = course
        self._questions = load_questions()

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box") as box:
            box.border_title = Content("questions and answers")
            box.border_subtitle = Content("↑ ↓ scroll · a letter shows it live · esc back")
            for letter, explained in zip(ascii_lowercase, self._questions, strict=False):
                yield Static(self._entry(letter, explained))

    def _entry(self, letter: str, explained: Explained) -> Content:
        lesson = self._course.library.find(explained.lesson) if self._course is not None else None
        if lesson is None:
            where = f"kvtop learn {explained.lesson} shows it"
        else:
            where = f"{letter} shows it: {lesson.title}, scene {explained.scene}"
        return Content.assemble(
            (f"{letter}  {explained.question}\n", "bold $primary"),
            (explained.answer.strip() + "\n", ""),
            (where, "$text-muted"),
        )

    def on_key(self, event: events.Key) -> None:
        at = ascii_lowercase.find(event.character or "\0")
        if self._course is not None and 0 <= at < len(self._questions):
            event.stop()
            self.dismiss(self._questions[at])
