"""kvtop learn without its screen: the list, the check of lesson files, what is refused, and the way in and out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kvtop.cli import main
from kvtop.commands import learn
from kvtop.lessons.library import load_library
from kvtop.lessons.progress import LessonProgress, Progress
from tests.app.test_terminal import Terminal

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "lessons.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Progress and config of nobody else."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("KVTOP_CONFIG", str(tmp_path / "config" / "config.toml"))
    monkeypatch.setattr(learn, "progress_path", lambda: tmp_path / "data" / "kvtop" / "lessons.json")
    return tmp_path


def test_the_list_says_names_titles_and_how_far_one_is(at_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(at_home / "data" / "kvtop" / "lessons.json")
    progress.keep("sharing", LessonProgress(1))
    progress.keep("what-kv-costs", LessonProgress(answered=True))
    assert main(["learn", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 12
    assert re.fullmatch(r" 1  what-kv-costs +answered +What KV costs", lines[0])
    assert re.fullmatch(r" 2  block-tables +new +Block tables", lines[1])
    assert re.fullmatch(r" 5  sharing +scene 2 of \d +Sharing, and copy-on-write", lines[4])
    assert main(["learn", "--list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["lessons"]
    assert [row["lesson"] for row in rows[:2]] == ["what-kv-costs", "block-tables"]
    assert rows[4]["position"] == 1 and rows[0]["answered"] is True


def test_a_lesson_can_be_named_by_its_number_and_by_its_letter_in_the_list() -> None:
    library = load_library()
    for name in ("5", "e", "sharing"):
        assert learn._chosen(library, name)[1] == library.find("sharing")
    assert library.at("11") == library.lessons[10] == library.at("m")
    assert [library.at(name) for name in ("0", "13", "q", "é", "", "ab", "9" * 5000)] == [None] * 7


def test_check_says_what_a_file_holds_or_what_is_wrong_with_it(
    at_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = at_home / "good.toml", at_home / "bad.toml"
    good.write_text(EXAMPLE)
    bad.write_text(EXAMPLE.replace("num_blocks", "blocks"))
    assert main(["learn", "--check", str(good)]) == 0
    assert capsys.readouterr().out.startswith(f"{good}: a lesson, “A block when the last is full”: 2 scenes")
    assert main(["learn", "--check", str(good), str(bad)]) == 1
    told = capsys.readouterr()
    assert str(good) in told.out
    assert f"{bad}: engine: no setting 'blocks' for a lesson, expected one of block_size, " in told.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["shaering"], "there is no lesson 'shaering'; did you mean sharing?"),
        (["xyz"], "there is no lesson 'xyz'; kvtop learn --list names them"),
        (["--json"], "--json belongs to --list"),
        (["--restart"], "--restart needs the name of a lesson"),
        (["sharing", "--list"], "--list plays no lesson; leave out 'sharing'"),
        (["--sim", "--dtype", "float32"], "--sim runs no model; leave out --dtype"),
    ],
)
def test_wrong_usage_is_said(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["learn", *arguments])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_a_file_that_is_no_lesson_and_a_missing_terminal_end_with_1(
    at_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = at_home / "bad.toml"
    bad.write_text("format = 1\n")
    assert main(["learn", "--sim", str(bad)]) == 1
    assert f"{bad}: Object missing required field" in capsys.readouterr().err
    assert main(["learn", "--sim", "sharing"]) == 1
    assert "draws on a terminal" in capsys.readouterr().err


def test_a_lesson_that_needs_a_model_is_refused_without_one(at_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = at_home / "mine.toml"
    mine.write_text("simulated = false\n" + EXAMPLE)
    with pytest.raises(SystemExit):
        main(["learn", "--sim", str(mine)])
    assert "needs a model; leave out --sim" in capsys.readouterr().err


def test_the_list_needs_neither_torch_nor_textual() -> None:
    words = "import sys; from kvtop.cli import main; main(['learn', '--list']); "
    words += "print([name for name in ('torch', 'transformers', 'textual') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_lesson_plays_on_a_terminal_and_is_left_with_progress_kept(at_home: Path) -> None:
    (at_home / "mine.toml").write_text(EXAMPLE)
    command = [sys.executable, "-m", "kvtop", "learn", "--sim", str(at_home / "mine.toml")]
    terminal = Terminal(at_home / "pid", command=command)
    try:
        terminal.wait_for("A block when the last is full")
        terminal.wait_for("What the student reads.")
        terminal.wait_for("paused")
        terminal.press("n")
        terminal.wait_for("Look at a's blocks.")
        terminal.press("q")
        assert terminal.wait() == 0
        assert terminal.restored()
    finally:
        terminal.close()
    kept = json.loads((at_home / "data" / "kvtop" / "lessons.json").read_text())
    assert kept[str(at_home / "mine.toml")]["position"] == 1
