"""A lesson file → a Lesson, or one sentence that says where the file is wrong.

The format is docs/lessons.md: TOML with the engine's settings, scenes that are stepped through, and a question. It is
read strictly, like a workload: whatever is misspelt refuses the lesson by scene and key, before anybody opens it.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from kvtop.engine.requests import Request
from kvtop.failure import Failure
from kvtop.lessons.commands import parse_command
from kvtop.lessons.expression import Expression
from kvtop.lessons.facts import FACTS, FACTS_OF_A_REQUEST
from kvtop.lessons.figures import check_figures
from kvtop.settings import SETTINGS, EngineSettings

FORMAT = 1
MARKS = ("free", "cached", "shared", "decision", "log", "pressure", "sequences", "headline")
"""What a scene can point at, beside ``blocks ID``: the blocks of a request."""

OWN_SETTINGS = ("model", "model_dir", "model_source", "device", "dtype")
"""Settings that are the user's in every lesson."""
_SETTINGS = {
    setting.name: setting
    for setting in SETTINGS
    if setting.section == "engine" and setting.name not in (*OWN_SETTINGS, "kv_memory")
}


class LessonError(Failure):
    """The file is no lesson; the message begins with its name and the place of what is wrong."""


class Guess(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the student is to foretell before the task; ``truth`` is a formula, worked out once the task is done."""

    text: str
    truth: str
    choices: list[str] = []
    """With them the truth is the index (from 0) of one."""
    unit: str = ""


class Scene(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One page of a lesson: what is said, what the engine is made to do on entering, what the student does by hand."""

    text: str
    watch: str = ""
    send: list[Request] = []
    do: list[str] = []
    task: str = ""
    done: str = ""
    """A formula: the task is done once it was not 0. Without it the student goes on when ready."""
    guess: Guess | None = None


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The question at the end. ``answer`` is a formula: the number that is right, or, with ``choices``, the index (from
    0) of the one that is."""

    text: str
    answer: str
    choices: list[str] = []
    unit: str = ""
    tolerance: float = 0.0
    """How far off a number may be, as a share of it."""
    needs: str = ""
    """A formula: while it is 0, what is asked about is over, and the lesson must be played again."""
    right: str
    wrong: str


class Lesson(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole lesson. ``id`` is the file's name without its ending."""

    format: Literal[1]
    title: str
    order: int
    summary: str
    scenes: list[Scene] = msgspec.field(name="scene")
    question: Question
    engine: dict[str, Any] = {}
    """What the engine's settings must be; all others have their defaults."""
    simulated: bool = True
    """It can be played without a model, too."""
    id: str = ""

    def settings(self, own: EngineSettings) -> EngineSettings:
        """The engine it is played on: the user's ``own`` model and device, so that everybody sees the same."""
        return EngineSettings(**{name: getattr(own, name) for name in OWN_SETTINGS}, **self.engine)


def formula(text: str) -> Expression:
    """Raises ValueError when ``text`` is no formula over the facts."""
    return Expression(text, FACTS, FACTS_OF_A_REQUEST)


def read_lesson(path: Path) -> Lesson:
    """The lesson in a file.

    Raises:
        LessonError: it cannot be read, or breaks a rule of the format.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LessonError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise LessonError(f"{path}: is not TOML: {error}") from error
    try:
        return parse_lesson(raw, path.stem)
    except ValueError as error:
        raise LessonError(f"{path}: {error}") from None


def parse_lesson(raw: dict[str, Any], lesson_id: str) -> Lesson:
    """The lesson in a TOML document.

    Raises:
        ValueError: a rule of the format is broken; the message says which, where.
    """
    try:
        lesson = msgspec.convert(raw | {"id": lesson_id, "engine": _engine(raw.get("engine", {}))}, Lesson)
    except msgspec.ValidationError as error:
        raise ValueError(_plain(str(error))) from None
    if not lesson.scenes:
        raise ValueError("scene: there is none, expected at least one [[scene]]")
    swap_blocks = 1 if lesson.engine.get("swap_memory") else 0
    if lesson.engine.get("preempt") == "swap" and not swap_blocks:
        raise ValueError("engine: preempt is swap, but there is no swap space; give it swap_memory")
    sent: set[str] = set()
    for number, scene in enumerate(lesson.scenes, start=1):
        _check_scene(f"scene {number}", scene, sent, swap_blocks)
    _check_question(lesson.question, sent)
    return lesson


def _engine(table: Any) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise ValueError(f"engine: is {table!r}, expected a table")
    parsed = {}
    for name, value in table.items():
        setting = _SETTINGS.get(name)
        if setting is None:
            raise ValueError(
                f"engine: no setting {name!r} for a lesson, expected one of {', '.join(sorted(_SETTINGS))}"
            )
        try:
            parsed[name] = setting.parse(str(value).lower() if isinstance(value, bool) else str(value))
        except ValueError as error:
            raise ValueError(f"engine: {name} is {value!r}, expected {error}") from None
    return parsed


def _plain(message: str) -> str:
    """msgspec's words with the place in front: ``scene[0].send[1].max_tokens: Expected `int`, got `str```."""
    what, _, place = message.partition(" - at `$")
    place = place.rstrip("`").lstrip(".")
    return f"{place}: {what}" if place else what


def _check_scene(where: str, scene: Scene, sent: set[str], swap_blocks: int) -> None:
    for request in scene.send:
        fault = request.check()
        if fault:
            raise ValueError(f"{where}: send {request.id!r}: {fault}")
        if request.id in sent:
            raise ValueError(f"{where}: send {request.id!r}: this id was sent before; every id must be its own")
        sent.add(request.id)
    kind, _, request_id = scene.watch.partition(" ")
    if scene.watch and scene.watch not in MARKS and not (kind == "blocks" and request_id in sent):
        marks = ", ".join(MARKS)
        raise ValueError(f"{where}: watch is {scene.watch!r}, expected one of {marks}, or blocks ID of a request sent")
    for text in scene.do:
        _within(where, "do", lambda line: parse_command(line, swap_blocks), text)
    _check_text(where, "text", scene.text, sent)
    _check_text(where, "task", scene.task, sent, may_be_empty=True)
    if scene.done:
        if not scene.task:
            raise ValueError(f"{where}: done without a task; say what there is to do")
        _check_formula(where, "done", scene.done, sent)
    if scene.guess is not None:
        if not scene.done:
            raise ValueError(f"{where}: guess without done; the truth is told once the task is done")
        _check_text(where, "guess.text", scene.guess.text, sent)
        _check_formula(where, "guess.truth", scene.guess.truth, sent)


def _check_question(question: Question, sent: set[str]) -> None:
    _check_formula("question", "answer", question.answer, sent)
    if question.needs:
        _check_formula("question", "needs", question.needs, sent)
    for key in ("text", "right", "wrong"):
        _check_text("question", key, getattr(question, key), sent)
    if len(question.choices) == 1:
        raise ValueError("question: choices has one entry, expected none or several")
    if not 0 <= question.tolerance < 1:
        raise ValueError(f"question: tolerance is {question.tolerance:g}, expected a share from 0 to below 1")


def _check_formula(where: str, key: str, text: str, sent: set[str]) -> None:
    _check_requests(where, key, _within(where, key, formula, text).request_ids, sent)


def _check_text(where: str, key: str, text: str, sent: set[str], *, may_be_empty: bool = False) -> None:
    if not (text.strip() or may_be_empty):
        raise ValueError(f"{where}: {key}: is empty")
    _check_requests(where, key, _within(where, key, lambda words: check_figures(words, formula), text), sent)


def _check_requests(where: str, key: str, asked: set[str], sent: set[str]) -> None:
    for request_id in sorted(asked - sent):
        raise ValueError(f"{where}: {key}: asks about {request_id!r}, which is not sent until then")


def _within(where: str, key: str, parse: Any, text: str) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"{where}: {key}: {error}") from None
