"""The list of lessons: title, what it is about, how far the student is. Chosen with enter, the mouse, or its letter."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from kvtop.app.screens.dialog import Dialog
from kvtop.lessons.course import Course, suggested
from kvtop.lessons.lesson import Lesson
from kvtop.lessons.library import LETTERS
from kvtop.view.clean import clean_line


class Lessons(Dialog[str]):
    """Result: the id of the chosen lesson."""

    DEFAULT_CSS = """
    Lessons > .box { width: 100; padding: 0 1; }
    Lessons OptionList { height: auto; max-height: 100%; border: none; background: $background; padding: 0; }
    Lessons OptionList:focus { border: none; }
    Lessons .about { color: $text-muted; height: 2; margin: 1 1 0 1; }
    Lessons .faults { color: $warning; margin: 0 1; max-height: 3; }
    """
    BINDINGS = [
        Binding("j", "move(1)", "down", show=False),
        Binding("k", "move(-1)", "up", show=False),
        Binding("q,ctrl+c,ctrl+q", "app.quit", "quit", show=False),
    ]

    def __init__(self, course: Course) -> None:
        super().__init__()
        self._course = course
        self._lessons = course.library.lessons

    def compose(self) -> ComposeResult:
        answered = sum(self._course.progress.of(lesson.id).answered for lesson in self._lessons)
        with Vertical(classes="box") as box:
            box.border_title = Content(f"lessons · {answered} of {len(self._lessons)} answered")
            box.border_subtitle = Content("enter or its letter opens one · esc back · q quit")
            yield OptionList(
                *(Option(self._row(index, lesson)) for index, lesson in enumerate(self._lessons)), markup=False
            )
            yield Static("", classes="about", markup=False)
            if self._course.library.faults:
                faults = "\n".join(clean_line(fault, 300) for fault in self._course.library.faults)
                yield Static(faults, classes="faults", markup=False)

    def _row(self, index: int, lesson: Lesson) -> Content:
        wide = 2 + max(len(clean_line(lesson.title, 44)) for lesson in self._lessons)
        letter = LETTERS[index] if index < len(LETTERS) else " "
        mark, style, words = self._progress(lesson)
        return Content.assemble(
            (f"{letter} ", "bold $primary"), (f"{mark} ", style), (clean_line(lesson.title, 44).ljust(wide), "bold"),
            (words, style),
        )  # fmt: skip

    def _progress(self, lesson: Lesson) -> tuple[str, str, str]:
        """Mark, style, words."""
        if not self._course.allows(lesson):
            return "–", "$text-muted", "needs a model"
        reached = self._course.progress.of(lesson.id)
        scenes = len(lesson.scenes)
        if reached.position:
            at = "at the question" if reached.position >= scenes else f"at scene {reached.position + 1} of {scenes}"
            return ("✓" if reached.answered else "▸"), "$warning", at
        return ("✓", "$success", "answered") if reached.answered else ("·", "$text-muted", "new")

    def on_mount(self) -> None:
        current = self._course.lesson or suggested(
            self._course.library, self._course.progress, simulated=self._course.simulated
        )
        if current in self._lessons:
            self.query_one(OptionList).highlighted = self._lessons.index(current)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self.query_one(".about", Static).update(clean_line(self._lessons[event.option_index].summary, 300))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self._choose(event.option_index)

    def on_key(self, event: events.Key) -> None:
        at = LETTERS.find(event.character or "\0")
        if 0 <= at < len(self._lessons):
            event.stop()
            self._choose(at)

    def action_move(self, step: int) -> None:
        options = self.query_one(OptionList)
        options.highlighted = max(0, min(len(self._lessons) - 1, (options.highlighted or 0) + step))

    def _choose(self, index: int) -> None:
        lesson = self._lessons[index]
        if self._course.allows(lesson):
            self.dismiss(lesson.id)
        else:
            words = "This lesson needs a model: leave with q, and start kvtop learn without --sim."
            self.query_one(".about", Static).update(words)
