"""The app with lessons on a simulated engine that runs while it is looked at, and a student who does what is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot

from kvtop.app.app import AppSettings, KvtopApp
from kvtop.lessons.course import Course, Syllabus, suggested
from kvtop.lessons.library import Library, load_library
from kvtop.lessons.progress import Progress
from kvtop.settings import EngineSettings
from tests.app.feed import RunningSource
from tests.app.stage import make_app

OWN = EngineSettings()
MOST_TICKS = 400


def syllabus(folder: Path, first: str = "", anew: bool = False, library: Library | None = None) -> Syllabus:
    """Progress lies in ``folder``."""
    found = library or load_library()
    progress = Progress(folder / "lessons.json")
    likely = found.find(first) or suggested(found, progress, simulated=True)
    assert likely is not None
    return Syllabus(found, progress, OWN, likely.settings(OWN), simulated=True, first=first, anew=anew)


@asynccontextmanager
async def in_class(
    plan: Syllabus, size: tuple[int, int] = (120, 36)
) -> AsyncIterator[tuple[KvtopApp, Pilot[None], RunningSource]]:
    source = RunningSource(plan.running)
    app = make_app(source, AppSettings(syllabus=plan))
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        await look(app, pilot)
        yield app, pilot, source


def course_of(app: KvtopApp) -> Course:
    assert app.scene.course is not None
    return app.scene.course


async def look(app: KvtopApp, pilot: Pilot[None], ticks: int = 6) -> None:
    """Let the engine and the course run for some ticks, and paint what is."""
    for _ in range(ticks):
        app.feed.poll()
        if app.scene.course is not None:
            app.scene.course.tick()
    app.live.redraw()
    await pilot.pause()
    app.live.redraw()
    await pilot.pause()


async def do_task(app: KvtopApp, pilot: Pilot[None]) -> None:
    """Guess if asked, then step until the scene's task is done."""
    course = course_of(app)
    if course.guess_due:
        await answer(app, pilot, "1")
    for _ in range(MOST_TICKS):
        assert course.player is not None
        if course.player.task_done:
            return
        if app.feed.live.paused:
            await pilot.press("full_stop")
        app.feed.poll()
        app.feed.poll()
        course.tick()
    raise AssertionError(f"the task of scene {course.player} is never done")


async def go_on(app: KvtopApp, pilot: Pilot[None]) -> None:
    """n, until there is another scene."""
    course = course_of(app)
    assert course.player is not None
    player, at = course.player, course.player.position
    for _ in range(20):
        await pilot.press("n")
        await look(app, pilot, 2)
        if course.player is not player or course.player.position != at:
            await look(app, pilot)
            return
    raise AssertionError("n goes no further")


async def answer(app: KvtopApp, pilot: Pilot[None], text: str) -> None:
    for _ in range(20):
        if app.live.focused_panel == "answer":
            break
        await pilot.press("n")
    await pilot.press(*text, "enter")
    await look(app, pilot, 2)


async def to_the_question(app: KvtopApp, pilot: Pilot[None]) -> None:
    course = course_of(app)
    await look(app, pilot)
    while course.scene is not None:
        await do_task(app, pilot)
        await go_on(app, pilot)


def right_answer(course: Course) -> str:
    """What the student should type."""
    assert course.player is not None
    truth = course.player.answer(0).truth
    return str(int(truth) + 1) if course.player.lesson.question.choices else f"{truth:g}"
