"""Lessons as pictures: the panel, the list and the pages, at every size; each is also asked for its words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from kvtop.app.app import AppSettings, KvtopApp
from kvtop.lessons.progress import LessonProgress, Progress
from tests.app.feed import RunningSource
from tests.app.school import answer, do_task, go_on, look, syllabus, to_the_question
from tests.app.stage import make_app, text

Compare = Callable[..., bool]
Act = Callable[[KvtopApp, Pilot[None]], Awaitable[None]]
SIZES = [(200, 50), (120, 36), (80, 24), (60, 20)]


def in_class(folder: Path, lesson: str = "") -> KvtopApp:
    plan = syllabus(folder, lesson)
    return make_app(RunningSource(plan.running), AppSettings(syllabus=plan))


def after(app: KvtopApp, act: Act, words: tuple[str, ...]) -> Callable[[Pilot[None]], Awaitable[None]]:
    async def run(pilot: Pilot[None]) -> None:
        await pilot.pause()
        await look(app, pilot)
        await act(app, pilot)
        for field in app.screen.query(Input):
            field.cursor_blink = False
        await look(app, pilot, 1)
        shown = text(app)
        for word in words:
            assert word in shown, word

    return run


async def at_a_task(app: KvtopApp, pilot: Pilot[None]) -> None:
    await go_on(app, pilot)
    await do_task(app, pilot)
    await look(app, pilot)


async def answered_wrongly(app: KvtopApp, pilot: Pilot[None]) -> None:
    await to_the_question(app, pilot)
    await answer(app, pilot, "999")


def pressing(*keys: str) -> Act:
    async def act(app: KvtopApp, pilot: Pilot[None]) -> None:
        await pilot.press(*keys)
        await pilot.pause()

    return act


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_a_task(size: tuple[int, int], snap_compare: Compare, tmp_path: Path) -> None:
    app = in_class(tmp_path, "block-tables")
    words = ("Block tables", "scene 2 of 3", "◉ pool", "the blocks of a", "done: n goes on")
    assert snap_compare(app, terminal_size=size, run_before=after(app, at_a_task, words))


@pytest.mark.parametrize("size", [(120, 36), (80, 24)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_a_wrong_answer(size: tuple[int, int], snap_compare: Compare, tmp_path: Path) -> None:
    app = in_class(tmp_path, "running-out-recompute")
    words = ("◉ events", "Not what happened here.")
    assert snap_compare(app, terminal_size=size, run_before=after(app, answered_wrongly, words))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_list(size: tuple[int, int], snap_compare: Compare, tmp_path: Path) -> None:
    progress = Progress(tmp_path / "lessons.json")
    progress.keep("what-kv-costs", LessonProgress(answered=True))
    progress.keep("block-tables", LessonProgress(1))
    app = in_class(tmp_path)
    words = ("1 of 12 answered", "What KV costs", "answered", "at scene 2 of 3")
    assert snap_compare(app, terminal_size=size, run_before=after(app, pressing(), words))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_questions(size: tuple[int, int], snap_compare: Compare, tmp_path: Path) -> None:
    app = in_class(tmp_path, "sharing")
    words = ("questions and answers", "Which three kinds of waste", "a shows it: Where the waste was, scene 2")
    assert snap_compare(app, terminal_size=size, run_before=after(app, pressing("Q"), words))


@pytest.mark.parametrize("size", [(120, 36), (80, 24)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_analogy(size: tuple[int, int], snap_compare: Compare, tmp_path: Path) -> None:
    app = in_class(tmp_path, "sharing")
    words = ("the operating-system analogy, term by term", "KV block", "copy-on-write")
    assert snap_compare(app, terminal_size=size, run_before=after(app, pressing("A"), words))
