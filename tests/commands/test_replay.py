"""``kvtop replay`` without a screen, and what it says of files that are no good. (The screen: tests/app.)"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvtop import cli
from kvtop.engine.events import Batch
from kvtop.sources.frames import VERSION
from kvtop.view.pool_view import PoolView
from tests.commands.test_events import record
from tests.sources.traffic import batches


@pytest.fixture(scope="module")
def made() -> list[Batch]:
    return batches(90)


@pytest.fixture
def recording(tmp_path: Path, made: list[Batch]) -> Path:
    return record(tmp_path / "a.kvrec", made)


def test_a_step_is_shown_as_it_was(recording: Path, made: list[Batch], capsys: pytest.CaptureFixture[str]) -> None:
    view = PoolView()
    for batch in made[:40]:
        view.apply(batch)
    assert cli.main(["replay", str(recording), "--json", "--step", str(view.step)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["step"], shown["state"]) == (view.step, f"recorded up to step {made[-1].step}")
    assert shown["pool"]["active"] == view.blocks.active
    assert [s["table_runs"] for s in shown["sequences"]] and len(shown["sequences"]) == len(view.sequences)
    assert shown["events"][-1]["event"]["id"] == list(view.log.entries)[-1].event.id


def test_without_a_step_it_is_the_end(recording: Path, made: list[Batch], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["replay", str(recording), "--once"]) == 0
    assert f"step {made[-1].step}, recorded up to step {made[-1].step}, " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "words"),
    [(("--step", "100000"), "has the steps 1 to"), (("--speed", "0"), "expected a number above 0, up to 1000")],
)
def test_what_the_recording_does_not_have_is_wrong_usage(
    recording: Path, flags: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["replay", str(recording), "--once", *flags])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("command", [("replay",), ("replay", "--once"), ("replay", "--json"), ("events",)])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read (No such file"),
        (b"", "is empty, nothing was recorded"),
        (b"KVREC\0", "is cut off before its first step"),
        (b"\x7fELF and so on", "is not a kvtop recording"),
        (b"KVREC\0" + (VERSION + 1).to_bytes(2, "little"), "use a newer one"),
    ],
)
def test_what_is_no_recording_is_one_line_and_exit_code_1(
    command: tuple[str, ...],
    content: bytes | None,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "odd\x1b[2J.kvrec"
    if content is not None:
        path.write_bytes(content)
    assert cli.main([command[0], str(path), *command[1:]]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    assert words in line and "\x1b" not in line


def test_a_recording_cut_anywhere_is_shown_up_to_the_cut_or_refused_in_a_line(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = recording.read_bytes()
    for length in range(0, len(data), len(data) // 60):
        recording.write_bytes(data[:length])
        code = cli.main(["replay", str(recording), "--once"])
        shown = capsys.readouterr()
        assert (code, bool(shown.out)) in ((0, True), (1, False))
        assert "Traceback" not in shown.err and len(shown.err.splitlines()) == 1


def test_damage_inside_is_a_line_and_exit_code_1(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(recording.read_bytes())
    data[150] ^= 0xFF
    recording.write_bytes(data)
    for command in (["replay", str(recording), "--once"], ["events", str(recording)]):
        assert cli.main(command) == 1
        assert "damaged at step" in capsys.readouterr().err


def test_without_a_terminal_it_says_what_to_do_instead(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["replay", str(recording)]) == 1
    assert "--once prints one frame without" in capsys.readouterr().err
