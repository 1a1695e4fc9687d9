"""Playing a lesson: which scene it is at, what the engine is told on entering one, whether its task is done.

Knows no screen. Whoever drives it hands over every batch that the view has applied, sends the commands of
``enter``, and shows what ``scene`` says.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvtop.engine import events as e
from kvtop.engine.control import AnyCommand, Inject, Pause, Preempt, Set
from kvtop.lessons.commands import PreemptRequest, SceneCommand, parse_command
from kvtop.lessons.facts import Facts
from kvtop.lessons.figures import with_figures
from kvtop.lessons.lesson import Lesson, Scene, formula
from kvtop.view.pool_view import PoolView


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an answer was worth. ``truth`` is what really happened."""

    right: bool
    truth: float
    said: str


class Player:
    """One run through a lesson over ``view``. ``position`` counts scenes from 0; past the last comes the question."""

    def __init__(self, lesson: Lesson, view: PoolView) -> None:
        self.lesson = lesson
        self.position = 0
        self.entered = -1
        """The furthest scene that was opened."""
        self._done: set[int] = set()
        """Scenes whose task was done: what was so once stays done, whatever the engine does next."""
        self._truths: dict[int, float] = {}
        """By scene, what its guess was about, as it was when the task was done."""
        self._view = view
        self._facts = Facts(view)

    @property
    def scene(self) -> Scene | None:
        """The scene it is at; None at the question."""
        return self.lesson.scenes[self.position] if self.position < len(self.lesson.scenes) else None

    @property
    def task_done(self) -> bool:
        """Whether the student may go on: the scene's formula held once, or it has none."""
        scene = self.scene
        return scene is None or not scene.done or self.position in self._done

    @property
    def is_stepped(self) -> bool:
        """Whether the lesson leaves the engine paused in this scene."""
        said = [text for scene in self.lesson.scenes[: self.position + 1] for text in scene.do]
        return next((text == "pause" for text in reversed(said) if text in ("pause", "resume")), False)

    @property
    def can_answer(self) -> bool:
        """Whether there still is what the question asks about."""
        needs = self.lesson.question.needs
        return not needs or bool(formula(needs).value(self._facts))

    def enter(self) -> list[AnyCommand]:
        """What the engine is told when the scene opens: pauses and settings, which must hold before a step is taken,
        then the requests, then the other commands. Those of scenes that were passed while the engine was not there
        come before them. Nothing when the scene was open before."""
        commands: list[AnyCommand] = []
        for scene in self.lesson.scenes[self.entered + 1 : self.position + 1]:
            told = [command for text in scene.do for command in self._resolve(parse_command(text))]
            commands += [command for command in told if isinstance(command, Pause | Set)]
            if scene.send:
                commands.append(Inject(requests=list(scene.send)))
            commands += [command for command in told if not isinstance(command, Pause | Set)]
        self.entered = max(self.entered, min(self.position, len(self.lesson.scenes) - 1))
        return commands

    def _resolve(self, command: SceneCommand) -> list[AnyCommand]:
        if not isinstance(command, PreemptRequest):
            return [command]
        running = [s for s in self._view.with_status("running") if s.request_id == command.request_id]
        newest = max(running, key=lambda sequence: sequence.admitted_order, default=None)
        return [] if newest is None else [Preempt(seq=newest.seq, mode=command.mode)]

    def take(self, batch: e.Batch) -> None:
        """A batch that the view has applied."""
        self._facts.take(batch)
        scene = self.scene
        if scene is None or not scene.done or self.position > self.entered or self.position in self._done:
            return
        if self._value(scene.done):
            self._done.add(self.position)
            if scene.guess is not None:
                self._truths[self.position] = self._value(scene.guess.truth)

    def go_on(self) -> None:
        """To the next scene, or to the question."""
        self.position = min(self.position + 1, len(self.lesson.scenes))

    def go_back(self) -> None:
        """One scene back, to read it again; nothing that happened is undone."""
        self.position = max(0, self.position - 1)

    def words(self, text: str) -> str:
        """A text of the lesson with the figures of this run."""
        return with_figures(text, formula, self._facts if self._view.info is not None else None)

    @property
    def guess_truth(self) -> float | None:
        """What the scene's guess should have been; None until its task is done."""
        return self._truths.get(self.position)

    def answer(self, given: float) -> Verdict:
        """Compare a number, or the index of a choice, with what happened."""
        question = self.lesson.question
        truth = self._value(question.answer)
        right = abs(given - truth) <= question.tolerance * abs(truth)
        return Verdict(right, truth, self.words(question.right if right else question.wrong))

    def _value(self, text: str) -> float:
        return float(formula(text).value(self._facts))
