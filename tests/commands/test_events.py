"""``kvtop events`` through the real command line, on recordings of the simulated engine."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from kvtop import cli
from kvtop.commands.events import VERBS
from kvtop.engine.events import Batch, Finished, Queued
from kvtop.sources.file_sink import FileSink
from kvtop.sources.history import History
from kvtop.sources.recorder import Recorder
from tests.sources.traffic import batches

HOSTILE = 'req \x1b]0;title\x07 \x9b31m \u202e [red] "'


def record(path: Path, *sessions: list[Batch]) -> Path:
    recorder = Recorder([FileSink(path)])
    for session in sessions:
        for batch in session:
            recorder.add(batch)
    recorder.close()
    return path


def hostile(made: list[Batch]) -> list[Batch]:
    """The same batches, with requests whose id would act on a terminal."""
    replace = msgspec.structs.replace
    batches: list[Batch] = []
    for b in made:
        events = [replace(e, request_id=HOSTILE) if isinstance(e, Queued | Finished) else e for e in b.events]
        snapshot = b.snapshot
        if snapshot is not None:
            states = [replace(state, request_id=HOSTILE) for state in snapshot.sequences]
            snapshot = replace(snapshot, sequences=states)
        batches.append(replace(b, events=events, snapshot=snapshot))
    return batches


@pytest.fixture(scope="module")
def made() -> list[Batch]:
    return batches(120)


@pytest.fixture
def recording(tmp_path: Path, made: list[Batch]) -> Path:
    return record(tmp_path / "a.kvrec", made)


def test_json_has_every_event_with_its_batch_step_and_times(
    recording: Path, made: list[Batch], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["events", str(recording), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"]["id"] for line in lines] == [event.id for batch in made for event in batch.events]
    last = made[-1]
    assert (lines[-1]["batch"], lines[-1]["step"], lines[-1]["wall_s"]) == (last.number, last.step, last.wall_s)
    assert {"type", "id"} <= lines[-1]["event"].keys()


def test_words_tell_decisions_and_leave_out_what_comes_with_every_step(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["events", str(recording)]) == 0
    shown = capsys.readouterr().out
    assert "preempt " in shown and "compute " not in shown
    assert cli.main(["events", str(recording), "--type", "advanced,step_timed", "--to-step", "1"]) == 0
    computed, timed = capsys.readouterr().out.splitlines()
    assert " tokens of " in computed and " ms: schedule " in timed


def test_filters_join(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["events", str(recording), "--json", "--type", "queued", "--request", "req-2"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["event"]["request_id"] == "req-2"


def test_an_unknown_type_is_wrong_usage_and_names_the_nearest(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["events", str(recording), "--type", "preemptd"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "is 'preemptd', expected types of events: 'preemptd' is none, did you mean preempted?" in said


def test_a_type_may_be_asked_for_by_the_word_its_lines_begin_with(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tried = 0
    for verb, name in VERBS.items():
        assert cli.main(["events", str(recording), "--type", verb]) == 0
        lines = capsys.readouterr().out
        assert cli.main(["events", str(recording), "--type", name]) == 0
        assert capsys.readouterr().out == lines
        words = {line.split()[2] for line in lines.splitlines()}
        assert words <= {verb, "sent"}  # what is sent in is a command, too
        tried += bool(words)
    assert tried > 12


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_filter_that_lets_nothing_through_is_said(
    recording: Path, form: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["events", str(recording), "--request", "zzz", *form]) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"kvtop: {recording} holds no event of what was asked for\n")


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_hostile_text_reaches_no_terminal(
    tmp_path: Path, made: list[Batch], form: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    path = record(tmp_path / "h.kvrec", hostile(made))
    assert cli.main(["events", str(path), *form]) == 0
    shown = capsys.readouterr().out
    assert "title" in shown
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown)


def test_names_are_known_in_a_recording_begun_in_the_middle(
    tmp_path: Path, made: list[Batch], capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = Recorder([History()])
    for batch in made[:60]:
        recorder.add(batch)
    recorder.attach(FileSink(tmp_path / "late.kvrec"))
    for batch in made[60:]:
        recorder.add(batch)
    recorder.close()
    assert cli.main(["events", str(tmp_path / "late.kvrec")]) == 0
    shown = capsys.readouterr().out
    assert "req-" in shown and " seq " not in shown


def test_another_engine_in_the_recording_is_said(
    tmp_path: Path, made: list[Batch], capsys: pytest.CaptureFixture[str]
) -> None:
    path = record(tmp_path / "two.kvrec", made[:30], batches(20, seed=2, num_blocks=32))
    assert cli.main(["events", str(path)]) == 0
    assert capsys.readouterr().out.count("another engine begins") == 1
    assert cli.main(["events", str(path), "--json"]) == 0
    sessions = [json.loads(line)["session"] for line in capsys.readouterr().out.splitlines()]
    assert set(sessions) == {0, 1} and sessions == sorted(sessions)


def test_a_file_that_was_cut_off_is_printed_up_to_the_cut_and_that_is_said(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = recording.read_bytes()
    recording.write_bytes(data[:-100])
    assert cli.main(["events", str(recording)]) == 0
    shown = capsys.readouterr()
    assert shown.out
    assert "is cut off or damaged at its end" in shown.err and "up to step" in shown.err
