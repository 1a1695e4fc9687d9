"""A student's way through the lessons: which one is open, where they are in it, what they guessed and answered.

It joins a Player with an engine that it reaches through a Desk, and with the progress that is kept. A lesson begins on
an engine of its own; one that was left is caught up with: the scenes before are played again by themselves, so that
the engine is where it was. Knows no screen: that calls ``take`` and ``tick`` and shows what stands here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kvtop.engine import events as e
from kvtop.engine.control import AnyCommand, Pause, Step
from kvtop.lessons.answers import choice_of, number_of
from kvtop.lessons.catch_up import CatchUp
from kvtop.lessons.lesson import Guess, Lesson, Question, Scene
from kvtop.lessons.library import Library
from kvtop.lessons.player import Player, Verdict
from kvtop.lessons.progress import LessonProgress, Progress
from kvtop.settings import EngineSettings
from kvtop.view.pool_view import PoolView

HINTS = 3
"""Wrong answers after which the right one is told."""


class Desk(Protocol):
    """What a course asks of whoever has the engine."""

    @property
    def view(self) -> PoolView:
        """The running engine's; ``info`` is None while it loads."""
        ...

    def send(self, command: AnyCommand) -> None: ...

    def begin(self, settings: EngineSettings) -> None:
        """An engine with these settings in place of the one there is; ``view`` is a new one then."""
        ...

    def say(self, words: str) -> None:
        """Something the student should know."""
        ...


@dataclass(frozen=True, slots=True)
class Syllabus:
    """What a course is about. ``running``: the settings of an engine that is started anyhow."""

    library: Library
    progress: Progress
    own: EngineSettings
    running: EngineSettings
    simulated: bool = False
    first: str = ""
    """The lesson to open at once; empty: the student chooses."""
    anew: bool = False
    """That one from its first scene, wherever it was left."""


def suggested(library: Library, progress: Progress, *, simulated: bool) -> Lesson | None:
    """The lesson to go on with: one that was begun, else the first that was not answered."""
    lessons = [lesson for lesson in library.lessons if lesson.simulated or not simulated]
    begun = [lesson for lesson in lessons if progress.of(lesson.id).position]
    unanswered = [lesson for lesson in lessons if not progress.of(lesson.id).answered]
    return next(iter([*begun, *unanswered, *lessons]), None)


class Course:
    """``player`` is None until a lesson is chosen."""

    def __init__(self, syllabus: Syllabus, desk: Desk) -> None:
        self.library = syllabus.library
        self.progress = syllabus.progress
        self.simulated = syllabus.simulated
        self.player: Player | None = None
        self.verdict: Verdict | None = None
        self.wrong_answers = 0
        self.fault = ""
        """What was wrong with what was typed, or with going on."""
        self.guesses: dict[int, float] = {}
        """By scene."""
        self._own = syllabus.own
        self._fresh: EngineSettings | None = syllabus.running
        """Of an engine that nobody has used yet."""
        self._desk = desk
        self._catch_up = CatchUp()
        self._paused_for: set[int] = set()

    # --- what there is to show ----------------------------------------------------------------------------------------

    @property
    def lesson(self) -> Lesson | None:
        return self.player.lesson if self.player is not None else None

    @property
    def scene(self) -> Scene | None:
        return self.player.scene if self.player is not None else None

    @property
    def question(self) -> Question | None:
        """The question, when it is due."""
        player = self.player
        return player.lesson.question if player is not None and player.scene is None else None

    @property
    def catching_up(self) -> bool:
        return self.player is not None and self.player.position < self._catch_up.target

    @property
    def answered(self) -> bool:
        """The question was answered, or its answer told."""
        return self.verdict is not None and (self.verdict.right or self.told)

    @property
    def told(self) -> bool:
        """The right answer was told, after so many wrong ones."""
        return self.wrong_answers >= HINTS

    @property
    def guess_due(self) -> bool:
        """The scene asks to foretell something, and the student has not."""
        scene, player = self.scene, self.player
        return scene is not None and player is not None and scene.guess is not None and not self._guessed(player)

    @property
    def asked(self) -> Guess | Question | None:
        """What the student is to type something for: a guess, or the answer. None: nothing is asked now."""
        player, scene = self.player, self.scene
        if player is None or self.catching_up:
            return None
        if scene is not None:
            return scene.guess if self.guess_due else None
        return self.question if player.can_answer and not self.answered else None

    @property
    def watch(self) -> str:
        """What is marked on the screen, as the scene says; at the question what was marked last."""
        player = self.player
        if player is None or self.catching_up:
            return ""
        return player.lesson.scenes[min(player.position, len(player.lesson.scenes) - 1)].watch

    def _guessed(self, player: Player) -> bool:
        return player.position in self.guesses or player.task_done

    # --- opening ------------------------------------------------------------------------------------------------------

    def allows(self, lesson: Lesson) -> bool:
        """It can be played on the engine of this course."""
        return lesson.simulated or not self.simulated

    def open(self, lesson: Lesson, position: int | None = None) -> None:
        """Play a lesson from where it was left, or from a scene, on an engine of its own."""
        settings = lesson.settings(self._own)
        unused = self._fresh == settings and not self._desk.view.counters.requests
        if not unused:
            self._desk.begin(settings)
        self._fresh = None
        at = self.progress.of(lesson.id).position if position is None else position
        self._start(lesson, min(at, len(lesson.scenes)))
        self.guesses.clear()
        self._keep()

    def begin_again(self) -> None:
        """The open lesson from its first scene."""
        if self.lesson is not None:
            self.open(self.lesson, 0)

    def engine_restarted(self) -> None:
        """The engine died and there is a new one: catch up with where the student was."""
        if self.player is not None:
            self._start(self.player.lesson, max(self._catch_up.target, self.player.position))

    def _start(self, lesson: Lesson, target: int) -> None:
        self.player = Player(lesson, self._desk.view)
        self._catch_up = CatchUp(target)
        self._paused_for.clear()
        self._forget_answers()

    def _forget_answers(self) -> None:
        self.verdict, self.wrong_answers, self.fault = None, 0, ""

    def next_lesson(self) -> Lesson | None:
        """The one after the open one."""
        lessons, lesson = self.library.lessons, self.lesson
        following = [other for other in lessons if lesson is not None and (other.order, other.id) > (
            lesson.order, lesson.id) and self.allows(other)]  # fmt: skip
        return next(iter(following), None)

    # --- while it plays -----------------------------------------------------------------------------------------------

    def take(self, batch: e.Batch) -> None:
        """A batch that the view has applied."""
        if self.player is not None:
            self.player.take(batch)

    def tick(self) -> None:
        """Called some ten times a second: open the scene, catch up, hold the engine when its task is done."""
        player = self.player
        if player is None or self._desk.view.info is None:
            return
        opens = player.position > player.entered
        commands = player.enter()
        if opens and player.is_stepped and not self._desk.view.paused and Pause() not in commands:
            commands.insert(0, Pause())
        for command in commands:
            self._desk.send(command)
        if commands:
            self._catch_up.scene_opened()
        elif self.catching_up:
            if self._catch_up.wants_step(player, self._desk.view):
                self._desk.send(Step())
            if not self.catching_up:
                self._keep()
        elif player.task_done:
            self._hold(player)

    def _hold(self, player: Player) -> None:
        """The task was just done. In a scene that is stepped through, an engine that was let run stops there."""
        if player.scene is None or player.position in self._paused_for:
            return
        self._paused_for.add(player.position)
        self.fault = ""
        if player.scene.done and player.is_stepped and not self._desk.view.paused:
            self._desk.send(Pause())

    # --- what the student does ----------------------------------------------------------------------------------------

    def go_on(self) -> Lesson | None:
        """To the next scene, when the task is done. After the answer: the next lesson."""
        player = self.player
        if player is None or self.catching_up:
            return None
        if player.scene is None:
            return self.next_lesson() if self.answered else None
        if player.task_done:
            self._leave_scene(player)
        else:
            self.fault = "The task is still open. K goes on without it."
        return None

    def skip(self) -> None:
        """To the next scene, whatever became of the task."""
        player = self.player
        if player is not None and player.scene is not None and not self.catching_up:
            self._leave_scene(player)

    def _leave_scene(self, player: Player) -> None:
        self.fault = ""
        player.go_on()
        self._catch_up.target = player.position
        self._keep()

    def go_back(self) -> None:
        """To the scene before, to read it again."""
        if self.player is not None and not self.catching_up:
            self.player.go_back()
            self._catch_up.target = self.player.position
            self._forget_answers()

    def type_in(self, text: str) -> None:
        """A guess or an answer, as it was typed; ``verdict`` or ``fault`` says what came of it."""
        player, asked = self.player, self.asked
        if player is None or asked is None:
            return
        try:
            given = choice_of(text, asked.choices) if asked.choices else number_of(text)
        except ValueError as error:
            self.fault = str(error)
            return
        self.fault = ""
        if isinstance(asked, Guess):
            self.guesses[player.position] = given
            return
        self.verdict = player.answer(given)
        if self.verdict.right:
            self._note(LessonProgress(position=0, answered=True))
        else:
            self.wrong_answers += 1

    def _keep(self) -> None:
        """Note where the student is."""
        player = self.player
        if player is not None:
            answered = self.progress.of(player.lesson.id).answered
            self._note(LessonProgress(max(self._catch_up.target, player.position), answered))

    def _note(self, progress: LessonProgress) -> None:
        assert self.lesson is not None
        try:
            self.progress.keep(self.lesson.id, progress)
        except OSError as error:
            self._desk.say(f"progress cannot be kept: {error.strerror or error}")
