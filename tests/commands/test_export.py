from __future__ import annotations

from pathlib import Path

import pytest

from kvtop import cli
from tests.commands.test_events import record
from tests.sources.traffic import batches


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return record(tmp_path / "a.kvrec", batches(40))


def test_a_page_is_written_and_its_size_said(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = recording.with_suffix(".html")
    assert cli.main(["export", str(recording), "--html", str(out)]) == 0
    shown = capsys.readouterr()
    assert shown.out == "" and f"wrote {out}, " in shown.err and "KiB" in shown.err
    assert out.read_text().startswith("<!doctype html>")


def test_a_page_is_never_written_over(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = recording.with_suffix(".html")
    out.write_text("mine")
    assert cli.main(["export", str(recording), "--html", str(out)]) == 1
    assert "exists already" in capsys.readouterr().err and out.read_text() == "mine"


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (("--from-step", "90"), 1, "there is no step between these"),
        (("--theme", "puce"), 1, "there is no theme 'puce', expected one of"),
        (("--limit", "10KiB"), 2, "expected 256 KiB or more"),
    ],
)
def test_what_cannot_be_made_is_said_in_a_line(
    recording: Path, flags: tuple[str, ...], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = recording.with_suffix(".html")
    try:
        ended = cli.main(["export", str(recording), "--html", str(out), *flags])
    except SystemExit as stopped:
        ended = int(stopped.code or 0)
    assert ended == code
    assert words in capsys.readouterr().err and not out.exists()
