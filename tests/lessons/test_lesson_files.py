"""Lesson files: what is wrong is said with its place, and nothing in one can do harm."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kvtop.lessons.commands import parse_command
from kvtop.lessons.facts import FACTS, FACTS_OF_A_REQUEST
from kvtop.lessons.lesson import formula, parse_lesson
from kvtop.lessons.library import load_library
from kvtop.lessons.progress import LessonProgress, Progress
from kvtop.lessons.questions import load_questions
from kvtop.settings import EngineSettings

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "lessons.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL)


def example(old: str = "", new: str = "") -> dict[str, Any]:
    assert old in EXAMPLE
    return tomllib.loads(EXAMPLE.replace(old, new, 1))


def test_the_documented_example_is_a_lesson_and_every_fact_is_documented() -> None:
    lesson = parse_lesson(example(), "mine")
    assert (lesson.id, lesson.engine["block_size"], len(lesson.scenes)) == ("mine", 4, 2)
    own = EngineSettings(model="my-model", kv_memory=1 << 30, watermark=0.5, policy="reserve-max-model-len")
    assert lesson.settings(own) == EngineSettings(model="my-model", block_size=4, num_blocks=40, prefix_cache=False)
    for name in FACTS:
        assert f"`{name}`" in DOCUMENT, name
    for name in FACTS_OF_A_REQUEST:
        assert f'`{name}("ID")`' in DOCUMENT, name


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("format = 1", "format = 2", "format: Invalid enum value 2"),
        ('title = "A', 'titel = "A', "Object contains unknown field `titel`"),
        ("order = 25", 'order = "x"', "order: Expected `int`, got `str`"),
        ("block_size = 4", "block_sise = 4", "engine: no setting 'block_sise' for a lesson, expected one of"),
        ("block_size = 4", "block_size = 3", "engine: block_size is 3, expected a power of two"),
        ("max_tokens = 24", "max_tokens = 0", "scene 2: send 'a': max_tokens: is 0, expected 1 or more"),
        ("max_tokens = 24", 'max_tokens = "x"', "scene[1].send[0].max_tokens: Expected `int`"),
        ('watch = "blocks a"', 'watch = "blocks b"', "scene 2: watch is 'blocks b', expected one of free"),
        ('do = ["pause"]', 'do = ["stop"]', "scene 1: do: 'stop' is no command, expected pause"),
        ('do = ["pause"]', 'do = ["step until x"]', "scene 1: do: 'step until x': no event 'x'"),
        ('do = ["pause"]', 'do = ["set nope 1"]', "scene 1: do: nope cannot change while the engine runs; these can:"),
        ('do = ["pause"]', 'do = ["set watermark 2"]', "scene 1: do: watermark is '2', expected a share from 0"),
        ('do = ["pause"]', 'do = ["set preempt swap"]', "scene 1: do: preempt cannot be swap: this engine has no swap"),
        ('do = ["pause"]', 'do = ["swap a"]', "scene 1: do: 'swap a': the lesson's engine has no swap space"),
        ("block_size = 4", 'block_size = 4\npreempt = "swap"', "engine: preempt is swap, but there is no swap space"),
        ('right = "Yes."', 'right = " "', "question: right: is empty"),
        ("done = 'blocks(\"a\") >= 3'", "done = 'blocks(\"b\") >= 3'", "asks about 'b', which is not sent until then"),
        (
            "done = 'blocks(\"a\") >= 3'",
            "done = 'blocs(\"a\") >= 3'",
            "scene 2: done: 'blocs(\"a\") >= 3': no fact 'blocs'",
        ),
        ("answer = 'blocks(\"a\")'", "answer = 'blocks('", "question: answer: 'blocks(' is no formula"),
        ('right = "Yes."', 'right = "Yes."\ntolerance = 2', "question: tolerance is 2, expected a share"),
        ('right = "Yes."', 'right = "Yes."\nchoices = ["a"]', "question: choices has one entry"),
        ('task = "Press', 'taks = "Press', "scene[1]: Object contains unknown field `taks`"),
        ('right = "Yes."', 'right = "Yes, {blocs}."', "question: right: 'blocs': no fact 'blocs', expected one of"),
        ('right = "Yes."', """right = 'Yes, {blocks("z")}.'""", "question: right: asks about 'z', which is not sent"),
        ('right = "Yes."', 'right = "Yes."\nneeds = "("', "question: needs: '(' is no formula"),
        ('do = ["pause"]', 'guess = { text = "?", truth = "1" }', "scene 1: guess without done"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(old: str, new: str, words: str) -> None:
    with pytest.raises(ValueError) as fault:
        parse_lesson(example(old, new), "mine")
    assert words in str(fault.value)


@pytest.mark.parametrize("command", ["set preempt swap", "swap a"])
def test_a_lesson_whose_engine_has_swap_space_may_swap(command: str) -> None:
    raw = example('do = ["pause"]', f'do = ["{command}"]')
    raw["engine"]["swap_memory"] = "32MiB"
    assert parse_lesson(raw, "mine").scenes[0].do == [command]


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "free_blocks.__class__",
        "[free_blocks][0]",
        "(lambda: 1)()",
        "'text'",
        "blocks(free_blocks)",
        "blocks('a', 'b')",
        "2 ** 9999",
        "1 if free_blocks else 2",
        "0 < free_blocks < 9",
        "(" * 300 + "1" + ")" * 300,
        "",
    ],
)
def test_a_formula_can_compute_and_nothing_else(text: str) -> None:
    with pytest.raises(ValueError):
        formula(text)


class Numbers:
    def fact(self, name: str) -> float:
        return {"free_blocks": 7, "block_size": 4}.get(name, 0)

    def knows(self, request_id: str) -> bool:
        return request_id == "a"

    def fact_of(self, name: str, request_id: str) -> float:
        return 3 if (name, request_id) == ("blocks", "a") else 0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("free_blocks * block_size + 1", 29),
        ('blocks("a") * block_size - 2', 10),
        ("free_blocks // block_size", 1),
        ("-free_blocks % 4", 1),
        ("free_blocks / rejected", 0),
        ('blocks("a") >= 3 and not rejected', 1),
        ("free_blocks == 6 or free_blocks != 7", 0),
    ],
)
def test_formulas_are_worked_out(text: str, value: float) -> None:
    assert formula(text).value(Numbers()) == value


def test_commands_are_read_and_a_wrong_one_lists_them_all() -> None:
    assert parse_command("step 5") == parse_command("step  5")
    for text in (
        "pause",
        "step until allocated",
        "set watermark 0.05",
        "swap a",
        "preempt a",
        "abort a",
        "clear cache",
    ):
        parse_command(text)
    with pytest.raises(ValueError, match=r"'step 0' is no command, expected pause, resume, step"):
        parse_command("step 0")


def test_a_user_s_lesson_is_added_or_takes_the_place_of_ours_and_a_faulty_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(EXAMPLE)
    (tmp_path / "sharing.toml").write_text(EXAMPLE)
    (tmp_path / "bad.toml").write_text("format = [")
    library = load_library([tmp_path])
    mine = library.find("mine")
    assert mine is not None
    assert mine.order == 25
    sharing = library.find("sharing")
    assert sharing is not None
    assert sharing.title == "A block when the last is full"
    assert len(library.lessons) == 13
    (fault,) = library.faults
    assert fault.startswith(f"{tmp_path / 'bad.toml'}: is not TOML")


def test_progress_is_kept_and_a_spoilt_file_is_a_new_start(tmp_path: Path) -> None:
    path = tmp_path / "data" / "lessons.json"
    Progress(path).keep("sharing", LessonProgress(position=2))
    Progress(path).keep("block-tables", LessonProgress(answered=True))
    assert Progress(path).of("sharing").position == 2
    assert Progress(path).of("block-tables").answered
    assert [entry.name for entry in path.parent.iterdir()] == ["lessons.json"]
    path.write_text("{")
    assert Progress(path).of("sharing") == LessonProgress()


def test_every_question_is_shown_by_a_scene_of_a_lesson() -> None:
    questions = load_questions()
    assert len(questions) == 8
    lessons = load_library()
    for explained in questions:
        lesson = lessons.find(explained.lesson)
        assert lesson is not None and 1 <= explained.scene <= len(lesson.scenes)
