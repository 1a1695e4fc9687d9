"""What a student does with a lesson beside the engine's own keys: go on, go back, answer, choose, ask.

Where no lessons are played (kvtop live, replay), the pages of questions and terms are there to be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtop.app.actions.action import Action
from kvtop.app.screens.analogy import Analogy
from kvtop.app.screens.ask import Ask
from kvtop.app.screens.lessons import Lessons
from kvtop.app.screens.questions import Questions
from kvtop.lessons.course import Course
from kvtop.lessons.questions import Explained

if TYPE_CHECKING:
    from kvtop.app.screens.live import LiveScreen


def go_on(live: LiveScreen) -> None:
    course = _course(live)
    if course is None:
        return
    if course.player is None:
        choose(live)
    elif live.lesson.unread:
        live.lesson.read_on()
    elif course.asked is not None:
        live.ask(course.asked.unit)
    elif (following := course.go_on()) is not None:
        course.open(following)
    live.redraw()


def skip(live: LiveScreen) -> None:
    course = _course(live)
    if course is not None:
        course.skip()
        live.redraw()


def go_back(live: LiveScreen) -> None:
    course = _course(live)
    if course is not None:
        course.go_back()
        live.redraw()


def again(live: LiveScreen) -> None:
    course = _course(live)
    if course is None or course.lesson is None:
        return

    def answered(answer: str | None) -> None:
        if answer:
            course.begin_again()
            live.redraw()

    words = "It begins on a new engine; what happened on this one is gone."
    live.app.push_screen(Ask("Play the lesson from its beginning?", words, {"y": ("again", "play it")}), answered)


def choose(live: LiveScreen) -> None:
    course = _course(live)
    if course is None:
        return

    def chosen(lesson_id: str | None) -> None:
        lesson = course.library.find(lesson_id or "")
        if lesson is not None and (lesson is not course.lesson or course.answered):
            course.open(lesson)
        live.redraw()

    live.app.push_screen(Lessons(course), chosen)


def questions(live: LiveScreen) -> None:
    course = live.scene.course

    def chosen(asked: Explained | None) -> None:
        lesson = course.library.find(asked.lesson) if course is not None and asked is not None else None
        if course is not None and asked is not None and lesson is not None:
            course.open(lesson, asked.scene - 1)
            live.redraw()

    live.app.push_screen(Questions(course), chosen)


def analogy(live: LiveScreen) -> None:
    live.app.push_screen(Analogy())


def scroll(live: LiveScreen, lines: int) -> None:
    live.lesson.scroll_text(lines)


def _course(live: LiveScreen) -> Course | None:
    """The lessons; where there are none, says how to get there."""
    if live.scene.course is None:
        live.say("no lessons are played here; kvtop learn opens them", "warning")
    return live.scene.course


LESSONS: tuple[Action[LiveScreen], ...] = (
    Action("lesson_on", "n", "Read on; to the next scene, to the answer, to the next lesson.", "lesson", go_on),
    Action("lesson_skip", "K", "Go on though the task is not done.", "lesson", skip),
    Action("lesson_back", "N", "Back to the scene before. Nothing that happened is undone.", "lesson", go_back),
    Action("lessons", "L", "All lessons and how far you are; choose one.", "lesson", choose),
    Action("lesson_again", "R", "Play the lesson from its beginning, on a new engine.", "lesson", again),
    Action("questions", "Q", "Questions you should be able to answer, each with the scene that shows it.", "lesson",
           questions),
    Action("analogy", "A", "The operating-system analogy, term by term.", "lesson", analogy),
    Action("lesson_down", "down,j", "Read on, a line.", "lesson", lambda live: scroll(live, 1), panel="lesson"),
    Action("lesson_up", "up,k", "Read back, a line.", "lesson", lambda live: scroll(live, -1), panel="lesson"),
    Action("lesson_page_down", "pagedown", "Read on, a page.", "lesson", lambda live: live.lesson.read_on(),
           panel="lesson"),
    Action("lesson_page_up", "pageup", "Read back, ten lines.", "lesson", lambda live: scroll(live, -10),
           panel="lesson"),
)  # fmt: skip
