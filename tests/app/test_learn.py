"""Lessons on the screen: played with keys to their end, left and resumed, answered wrongly, on any size of terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvtop.app.app import AppSettings
from kvtop.lessons.library import load_library
from kvtop.lessons.progress import LessonProgress, Progress
from tests.app.feed import RunningSource, SteppedSource
from tests.app.school import (
    OWN,
    answer,
    course_of,
    do_task,
    go_on,
    in_class,
    look,
    right_answer,
    syllabus,
    to_the_question,
)
from tests.app.stage import make_app, on_stage, text

LESSONS = load_library().lessons


def flat(shown: str) -> str:
    """Words of the screen in one line; those of neighbouring panels are woven, so use it for one panel's lines."""
    return " ".join(shown.replace("│", " ").split())


def panel(app: object) -> str:
    """The words of the lesson panel alone, in one line."""
    lesson = app.live.lesson  # type: ignore[attr-defined]
    return flat("\n".join("".join(part for part, _ in line) for line in lesson.content(4_000, 100)))


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.id)
async def test_a_lesson_is_played_to_its_end_with_keys(lesson, tmp_path: Path) -> None:
    async with in_class(syllabus(tmp_path, lesson.id)) as (app, pilot, _):
        course = course_of(app)
        await to_the_question(app, pilot)
        await answer(app, pilot, right_answer(course))
        assert course.verdict is not None and course.verdict.right
        assert course.verdict.said.split()[0] in text(app)
        assert Progress(tmp_path / "lessons.json").of(lesson.id) == LessonProgress(0, answered=True)
        following = course.next_lesson()
        if following is not None:
            assert f"n: next lesson, {following.title}" in panel(app)
            await pilot.press("n")
            await look(app, pilot)
            assert course.lesson is following
            assert app.feed.live.info is not None
            assert app.feed.live.info.block_size == following.settings(OWN).block_size
        else:
            assert "That was the last lesson." in panel(app)


async def test_wrong_answers_get_a_hint_and_then_the_answer_of_this_run(tmp_path: Path) -> None:
    async with in_class(syllabus(tmp_path, "block-tables")) as (app, pilot, _):
        course = course_of(app)
        await to_the_question(app, pilot)
        truth = right_answer(course)
        await pilot.press("n")
        await pilot.pause()
        assert "your answer in blocks · enter checks it" in text(app)
        await pilot.press("escape")
        await answer(app, pilot, "many")
        assert "A number is expected, such as 12." in panel(app) and course.wrong_answers == 0
        await answer(app, pilot, "99")
        assert "Not what happened here." in panel(app) and "after 2 more wrong ones it is told" in panel(app)
        await answer(app, pilot, "98")
        await answer(app, pilot, "97")
        assert f"In this run it is {truth}" in panel(app)
        assert "n: next lesson" in panel(app)
        assert not Progress(tmp_path / "lessons.json").of("block-tables").answered


async def test_a_task_that_is_open_holds_the_student_back_until_they_skip_it(tmp_path: Path) -> None:
    async with in_class(syllabus(tmp_path, "block-tables")) as (app, pilot, _):
        course = course_of(app)
        await go_on(app, pilot)
        await pilot.press("n")
        assert "The task is still open. K goes on without it." in panel(app)
        await pilot.press("K")
        await look(app, pilot)
        assert course.player is not None and course.player.position == 2


async def test_a_scene_can_be_read_again_and_nothing_is_sent_twice(tmp_path: Path) -> None:
    async with in_class(syllabus(tmp_path, "block-tables")) as (app, pilot, source):
        await go_on(app, pilot)
        await do_task(app, pilot)
        sent = len(source.sent)
        await pilot.press("N")
        await look(app, pilot)
        assert "The pool is cut into blocks" in panel(app)
        await go_on(app, pilot)
        assert "done: n goes on" in panel(app)
        assert len(source.sent) == sent


async def test_a_lesson_that_was_left_is_caught_up_with_on_a_new_engine(tmp_path: Path) -> None:
    async with in_class(syllabus(tmp_path, "block-tables")) as (app, pilot, _):
        await go_on(app, pilot)
        await do_task(app, pilot)
        await go_on(app, pilot)
        step = app.feed.live.step
        assert step > 5
    async with in_class(syllabus(tmp_path)) as (app, pilot, _):
        course = course_of(app)
        assert "at scene 3 of 3" in text(app)
        await pilot.press("enter")
        assert course.catching_up
        assert "The scenes before are played again" in panel(app)
        for _ in range(60):
            await look(app, pilot, 1)
        assert course.player is not None and course.player.position == 2 and not course.catching_up
        assert course.player.entered == 2
        await do_task(app, pilot)
        await to_the_question(app, pilot)
        assert int(right_answer(course)) > 4


async def test_restart_begins_the_lesson_on_a_new_engine(tmp_path: Path) -> None:
    async with in_class(syllabus(tmp_path, "block-tables")) as (app, pilot, source):
        await go_on(app, pilot)
        await do_task(app, pilot)
        await pilot.press("R", "y")
        await look(app, pilot)
        course = course_of(app)
        assert source.restarts == 1 and course.player is not None and course.player.position == 0
        assert not app.feed.live.counters.requests
    Progress(tmp_path / "lessons.json").keep("block-tables", LessonProgress(2))
    async with in_class(syllabus(tmp_path, "block-tables", anew=True)) as (app, _, _source):
        player = course_of(app).player
        assert player is not None and player.position == 0


async def test_after_the_engine_died_r_brings_the_lesson_back_to_its_place(tmp_path: Path) -> None:
    async with in_class(syllabus(tmp_path, "block-tables")) as (app, pilot, source):
        await go_on(app, pilot)
        source.say("failed", "the engine process was killed by SIGKILL")
        await look(app, pilot)
        assert "the engine died" in text(app) and "The engine is gone. r starts another" in panel(app)
        await pilot.press("r")
        for _ in range(40):
            await look(app, pilot, 1)
        player = course_of(app).player
        assert source.restarts == 1 and player is not None and player.position == 1 and player.entered == 1
        assert {row.request_id for row in app.feed.live.sequences.values()} == {"a", "b"}


async def test_a_student_who_lets_it_run_is_stopped_where_the_task_is_done(tmp_path: Path) -> None:
    async with in_class(syllabus(tmp_path, "one-more-token")) as (app, pilot, _):
        course = course_of(app)
        await go_on(app, pilot)
        await pilot.press("space")
        for _ in range(60):
            await look(app, pilot, 1)
        assert course.player is not None and course.player.task_done
        assert app.feed.live.paused and app.feed.live.sequences


async def test_what_a_scene_points_at_is_marked(tmp_path: Path) -> None:
    async with in_class(syllabus(tmp_path, "block-tables")) as (app, pilot, _):
        assert "◉ pool" in text(app) and "watch the free blocks" in text(app)
        await go_on(app, pilot)
        await do_task(app, pilot)
        await look(app, pilot)
        lit = app.live.grid._pointed_at()
        (row,) = [row for row in app.feed.live.sequences.values() if row.request_id == "a"]
        assert lit is not None and sorted(lit) == sorted(row.table)
    async with in_class(syllabus(tmp_path, "running-out-recompute"), (80, 24)) as (app, pilot, _):
        await go_on(app, pilot)
        assert "◉ events" in text(app)


async def test_the_list_opens_a_lesson_by_its_letter_and_tells_progress(tmp_path: Path) -> None:
    Progress(tmp_path / "lessons.json").keep("what-kv-costs", LessonProgress(answered=True))
    async with in_class(syllabus(tmp_path)) as (app, pilot, source):
        shown = text(app)
        assert "1 of 12 answered" in shown and "✓ What KV costs" in shown
        await pilot.press("e")
        await look(app, pilot)
        course = course_of(app)
        assert course.lesson is not None and course.lesson.id == "sharing"
        assert source.settings == course.lesson.settings(source.settings)
        await pilot.press("L", "escape")
        await look(app, pilot)
        assert course.lesson.id == "sharing" and source.restarts == 1


async def test_a_question_of_the_page_is_shown_live(tmp_path: Path) -> None:
    async with in_class(syllabus(tmp_path, "what-kv-costs"), (120, 50)) as (app, pilot, _):
        await pilot.press("Q")
        await pilot.pause()
        assert "c  Why is sampling 8 answers not 8 times the memory?" in text(app)
        assert "c shows it: Sharing, and copy-on-write, scene 2" in text(app)
        await pilot.press("c")
        for _ in range(40):
            await look(app, pilot, 1)
        course = course_of(app)
        assert course.lesson is not None and course.lesson.id == "sharing"
        assert course.player is not None and course.player.position == 1 and not course.catching_up
        assert any(row.request_id == "a" for row in app.feed.live.sequences.values())


async def test_where_no_lessons_are_played_the_pages_name_the_command_that_plays_them() -> None:
    async with on_stage(SteppedSource(OWN), (120, 50)) as (app, pilot):
        await pilot.press("Q")
        await pilot.pause()
        assert "kvtop learn where-the-waste-was shows it" in text(app)
        await pilot.press("a", "escape", "n")
        await pilot.pause(0.3)
        assert app.screen is app.live
        assert "no lessons are played here; kvtop learn opens them" in text(app)


async def test_the_analogy_is_a_page_of_the_help(tmp_path: Path) -> None:
    async with in_class(syllabus(tmp_path, "what-kv-costs"), (120, 50)) as (app, pilot, _):
        await pilot.press("question_mark", "A")
        await pilot.pause()
        shown = text(app)
        assert "page table of a process ↔ block table of a sequence" in shown
        assert "An attention kernel cannot" in shown
        await pilot.press("escape", "escape")
        assert app.screen is app.live


async def test_a_lesson_of_ones_own_that_is_none_is_named_in_the_list(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("format = 9\n")
    library = load_library([tmp_path])
    async with in_class(syllabus(tmp_path, library=library)) as (app, _, _source):
        assert "mine.toml: format: Invalid enum value 9" in flat(text(app))


async def test_progress_that_cannot_be_kept_is_said(tmp_path: Path) -> None:
    plan = syllabus(tmp_path, "block-tables")
    (tmp_path / "lessons.json").mkdir()
    async with in_class(plan) as (app, pilot, _):
        await go_on(app, pilot)
        assert any("progress cannot be kept" in str(note.message) for note in app._notifications)


@pytest.mark.parametrize("size", [(200, 50), (120, 36), (80, 24), (60, 20), (30, 8)])
async def test_the_task_is_in_sight_at_any_size(size: tuple[int, int], tmp_path: Path) -> None:
    async with in_class(syllabus(tmp_path, "block-tables"), size) as (app, pilot, _):
        await go_on(app, pilot)
        shown = flat(text(app))
        if size[1] >= 20:
            assert "until b" in shown and "n " in shown
            assert "pool" in shown


def test_progress_is_one_file_of_json(tmp_path: Path) -> None:
    Progress(tmp_path / "p.json").keep("a", LessonProgress(2, answered=True))
    assert json.loads((tmp_path / "p.json").read_text()) == {"a": {"position": 2, "answered": True}}


async def test_stepping_back_ends_where_the_lesson_began(tmp_path: Path) -> None:
    plan = syllabus(tmp_path, "block-tables")
    source = RunningSource(plan.running)
    app = make_app(source, AppSettings(syllabus=plan, history=source.history))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        await go_on(app, pilot)
        await do_task(app, pilot)
        before = app.feed.live.info
        await pilot.press("L", "e")
        await look(app, pilot)
        await go_on(app, pilot)
        await do_task(app, pilot)
        for _ in range(8):
            await pilot.press("comma")
            info = app.scene.view.info
            assert info is not None and info.num_blocks == 64 and before is not None and before.num_blocks == 40
        assert app.scene.view.step == 0
