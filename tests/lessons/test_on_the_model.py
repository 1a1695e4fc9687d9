"""Every lesson on the real model, in an engine process of its own, as a student goes through it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvtop.app.feed import Feed
from kvtop.engine.control import AnyCommand, Step
from kvtop.lessons.course import Course, Syllabus
from kvtop.lessons.lesson import Lesson
from kvtop.lessons.library import load_library
from kvtop.lessons.progress import Progress
from kvtop.settings import EngineSettings
from kvtop.sources.embedded import EmbeddedSource
from kvtop.view.pool_view import PoolView
from tests.engine.real_model import model_folder

LIBRARY = load_library()
PATIENCE_S = 120.0


class Bench:
    """A desk without a screen."""

    def __init__(self, settings: EngineSettings) -> None:
        self.source = EmbeddedSource(settings)
        self.feed = Feed(self.source)
        self.said: list[str] = []
        self.source.start()

    @property
    def view(self) -> PoolView:
        return self.feed.live

    def send(self, command: AnyCommand) -> None:
        self.feed.send(command, lambda reply: self.said.append(reply.error) if reply.error else None)

    def begin(self, settings: EngineSettings) -> None:
        self.source.replace(settings)
        self.feed.begin_again()

    def say(self, words: str) -> None:
        self.said.append(words)


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    desk = Bench(LIBRARY.lessons[0].settings(own()))
    yield desk
    desk.source.close()


def own() -> EngineSettings:
    return EngineSettings(model=str(model_folder()))


def play(bench: Bench, course: Course) -> None:
    """Guess, step, go on, until the question is due."""
    until = time.monotonic() + PATIENCE_S
    stepped = -1
    while course.question is None:
        assert time.monotonic() < until, f"{course.lesson}: {bench.feed.status}, {course.scene}"
        bench.feed.poll()
        course.tick()
        assert bench.feed.status.state != "failed", bench.feed.status
        player, view = course.player, bench.view
        if view.info is None or player is None or player.entered < player.position:
            time.sleep(0.02)
        elif course.guess_due:
            course.type_in("1")
        elif player.task_done:
            course.go_on()
            stepped = -1
        elif view.paused and view.step != stepped:
            stepped = view.step
            bench.send(Step())
        else:
            time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LIBRARY.lessons, ids=lambda lesson: lesson.id)
def test_a_lesson_is_played_on_the_model(lesson: Lesson, bench: Bench, tmp_path: Path) -> None:
    course = Course(Syllabus(LIBRARY, Progress(tmp_path / "lessons.json"), own(), EngineSettings()), bench)
    bench.feed.on_batch = course.take
    course.open(lesson)
    play(bench, course)
    player = course.player
    assert player is not None and player.can_answer
    truth = player.answer(0).truth
    course.type_in(str(int(truth) + 1) if lesson.question.choices else f"{truth:g}")
    assert course.verdict is not None and course.verdict.right
    assert truth > 0 or lesson.question.choices
    assert not bench.said
    texts = [*(scene.text + scene.task for scene in lesson.scenes), lesson.question.text, lesson.question.right]
    assert "–" not in "".join(player.words(words) for words in texts)
    print(f"{lesson.id}: {truth:g}. {course.verdict.said}")
