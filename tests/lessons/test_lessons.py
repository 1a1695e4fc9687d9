"""Every lesson can be played to its end on an engine, and its question is answered by what happened there."""

from __future__ import annotations

import pytest

from kvtop.engine.control import Step
from kvtop.engine.cost import CARDS
from kvtop.engine.engine import Engine
from kvtop.engine.simulator import build_simulated_engine
from kvtop.lessons.expression import Expression
from kvtop.lessons.lesson import Lesson
from kvtop.lessons.library import load_library
from kvtop.lessons.player import Player
from kvtop.settings import EngineSettings
from kvtop.view.pool_view import PoolView

LIBRARY = load_library()
MOST_STEPS = 400


class Student:
    """Does what the scenes ask, one key at a time."""

    def __init__(self, lesson: Lesson) -> None:
        self.engine: Engine = build_simulated_engine(
            lesson.settings(EngineSettings()), CARDS["80gb"], lambda seconds: None
        )
        self.view = PoolView()
        self.player = Player(lesson, self.view)
        self.take()

    def take(self) -> None:
        batch = self.engine.step()
        if batch is not None:
            self.view.apply(batch)
            self.player.take(batch)

    def play(self) -> None:
        while self.player.scene is not None:
            for command in self.player.enter():
                reply = self.engine.apply(command)
                assert not reply.error, reply.error
            self.take()
            self.do_task()
            self.player.go_on()

    def do_task(self) -> None:
        for _ in range(MOST_STEPS):
            if self.player.task_done:
                return
            if self.engine.paused:
                assert not self.engine.apply(Step()).error
            self.take()
        raise AssertionError(f"scene {self.player.position + 1}: the task is never done")


def test_there_are_twelve_lessons_in_an_order_and_none_is_faulty() -> None:
    assert LIBRARY.faults == []
    assert len(LIBRARY.lessons) == 12
    orders = [lesson.order for lesson in LIBRARY.lessons]
    assert orders == sorted(set(orders))


@pytest.mark.parametrize("lesson", LIBRARY.lessons, ids=lambda lesson: lesson.id)
def test_a_lesson_plays_to_its_end_and_knows_the_right_answer(lesson: Lesson) -> None:
    student = Student(lesson)
    student.play()
    truth = student.player.answer(0).truth
    assert student.player.answer(truth).right
    assert not student.player.answer(truth + max(2, truth)).right
    assert truth > 0 or lesson.question.choices
    if lesson.question.choices:
        assert 0 <= truth < len(lesson.question.choices)


def test_tasks_are_not_done_before_the_student_does_anything() -> None:
    for lesson in LIBRARY.lessons:
        student = Student(lesson)
        open_tasks = 0
        while (scene := student.player.scene) is not None:
            for command in student.player.enter():
                student.engine.apply(command)
            if scene.done:
                assert not student.player.task_done, f"{lesson.id}, scene {student.player.position + 1}"
                open_tasks += 1
            student.do_task()
            student.player.go_on()
        assert open_tasks, f"{lesson.id} asks nothing of the student"


def test_the_next_block_comes_in_the_step_that_the_lesson_says() -> None:
    lesson = LIBRARY.find("one-more-token")
    assert lesson is not None
    student = Student(lesson)
    student.play()
    predicted = student.player.answer(0).truth
    taken = 0
    before = student.view.blocks.active
    while student.view.blocks.active == before:
        student.engine.apply(Step())
        student.take()
        taken += 1
    assert taken == predicted


def test_a_watermark_keeps_the_second_half_of_its_lesson_from_preempting() -> None:
    lesson = LIBRARY.find("watermark")
    assert lesson is not None
    student = Student(lesson)
    student.play()
    assert student.player.answer(0).truth == student.view.counters.preemptions > 0


def test_what_a_request_had_in_its_last_step_counts_too() -> None:
    lesson = LIBRARY.find("block-tables")
    assert lesson is not None
    student = Student(lesson)
    student.play()
    player = student.player
    assert player.words('{tokens("a")} {prompt_tokens("a")}') == "30 6"
    assert player.words('{most_blocks("a")} {blocks("a")}') == f"{-(-29 // 4)} 0"


def test_pauses_and_settings_hold_before_a_scene_s_requests_come() -> None:
    lesson = LIBRARY.find("watermark")
    assert lesson is not None
    player = Player(lesson, PoolView())
    player.go_on()
    player.go_on()
    told = [type(command).__name__ for command in player.enter()]
    assert told == ["Pause", "Inject", "Resume", "Set", "Inject"]
    assert player.enter() == []


def test_figures_in_words_are_of_this_run_and_unknown_until_they_are_known() -> None:
    lesson = LIBRARY.find("block-tables")
    assert lesson is not None
    empty = Player(lesson, PoolView())
    assert empty.words('{num_blocks} {blocks("a")}') == "– –"
    student = Student(lesson)
    assert student.player.words('{num_blocks} of {block_size / 3}, {blocks("a")}') == "40 of 1.33, –"


@pytest.mark.parametrize("text", ["1e308 * 10 - 1e308 * 10", "*".join(["10000000000"] * 50), "1e308 * 10"])
def test_a_formula_whose_value_is_no_number_is_worth_nothing(text: str) -> None:
    assert Expression(text, (), ()).value(NoFacts()) == 0


class NoFacts:
    """An engine that nothing is known of."""

    def fact(self, name: str) -> float:
        return 0

    def fact_of(self, name: str, request_id: str) -> float:
        return 0

    def knows(self, request_id: str) -> bool:
        return False
