"""``kvtop live`` without a screen and without a model: the simulated engine in its own process, real command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from kvtop import cli
from kvtop.app.app import AppSettings
from kvtop.sources import embedded
from kvtop.sources.recording import Recording
from tests.sources.test_embedded import ODD_ENGINE

FRAME = ("live", "--sim", "--num-blocks", "24", "--max-num-seqs", "4")


@pytest.fixture
def traffic(tmp_path: Path) -> str:
    words = "block table page pool slot head tail queue token step prompt prefix " * 3
    requests = [{"id": f"r{i}", "prompt": f"{i} {words}", "max_tokens": 20, "ignore_eos": True} for i in range(6)]
    path = tmp_path / "load.json"
    path.write_text(json.dumps({"requests": requests}))
    return str(path)


@pytest.fixture
def odd_engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "SIMULATOR_COMMAND", (sys.executable, ODD_ENGINE, request.param))


def frame(capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, Any]:
    assert cli.main([*FRAME, "--json", *flags]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_an_engine_without_traffic_prints_its_empty_pool_as_soon_as_it_is_ready(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main([*FRAME, "--once"]) == 0
    shown = capsys.readouterr()
    assert "pool         24 blocks of 16 tokens" in shown.out
    assert "0  " + "." * 24 in shown.out
    assert "simulated: scheduler and pool are real, no model runs" in shown.out
    assert "waste        – of held slots" in shown.out and "prefix hits  –" in shown.out
    assert "\x1b" not in shown.out + shown.err
    assert psutil.Process().children() == []


def test_swap_without_swap_space_is_warned_of_on_stderr_and_on_the_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    no_space = "there is no swap space: what is preempted is recomputed; give --swap-memory"
    assert cli.main([*FRAME, "--once", "--preempt", "swap"]) == 0
    assert f"kvtop: warning: preempt is swap, but {no_space}" in capsys.readouterr().err
    shown: list[str] = []

    def run_app(source: object, settings: AppSettings) -> int:
        shown.extend(settings.warnings)
        return 0

    monkeypatch.setattr("kvtop.commands.live.require_screen", lambda command: None)
    monkeypatch.setattr("kvtop.app.run.run_app", run_app)
    assert cli.main([*FRAME, "--preempt", "swap"]) == 0
    assert len(shown) == 1 and no_space in shown[0]
    assert cli.main([*FRAME, "--preempt", "swap", "--swap-memory", "64MiB"]) == 0
    assert len(shown) == 1


def test_a_theme_that_there_is_not_is_warned_of_also_without_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*FRAME, "--once", "--theme", "puce"]) == 0
    assert (
        "kvtop: warning: --theme is 'puce', but there is no such theme, expected one of dark" in capsys.readouterr().err
    )
    assert cli.main([*FRAME, "--once", "--theme", "light"]) == 0
    assert "theme" not in capsys.readouterr().err


def test_json_says_that_it_is_simulated_and_unknown_figures_are_null(capsys: pytest.CaptureFixture[str]) -> None:
    shown = frame(capsys)
    assert shown["engine"]["simulated"] is True
    assert (shown["state"], shown["step"]) == ("idle", 0)
    assert shown["pool"]["free"] == shown["pool"]["num_blocks"] == 24
    assert set(shown["figures"].values()) == {None}


def test_with_traffic_the_frame_comes_when_every_request_has_ended(
    traffic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = frame(capsys, "--traffic", traffic)
    assert shown["counters"]["completed"] == 6 and shown["sequences"] == []
    assert shown["counters"]["generated_tokens"] == 120
    assert shown["pool"]["active"] == 0
    assert {ended["request_id"] for ended in shown["ended"]} == {f"r{i}" for i in range(6)}


def test_steps_stop_it_exactly_there_with_the_sequences_as_they_are(
    traffic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = frame(capsys, "--traffic", traffic, "--steps", "9")
    assert (shown["step"], shown["counters"]["steps"], shown["state"]) == (9, 9, "paused")
    running = [sequence for sequence in shown["sequences"] if sequence["status"] == "running"]
    assert len(running) == 4
    for sequence in running:
        assert sequence["blocks"] == sum(count for _, count in sequence["table_runs"]) > 0
    waiting = next(sequence for sequence in shown["sequences"] if sequence["wait"])
    assert waiting["wait"]["reason"] == "seats"


def test_more_steps_than_there_are_end_when_the_requests_do(traffic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert frame(capsys, "--traffic", traffic, "--steps", "100000")["counters"]["completed"] == 6


def test_the_text_frame_names_sequences_states_and_reasons(traffic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*FRAME, "--once", "--traffic", traffic, "--steps", "9"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (row,) = (line for line in lines if line.startswith("A  r0"))
    assert row.split()[2:5] == ["decode", "46", "3"]
    assert any("r4" in line and "no seat: 4 run, as many as may" in line for line in lines)
    (grid,) = (line for line in lines if line.startswith(" 0  "))
    assert {"A", "B", "C", "D"} <= set(grid) and len(grid) == 4 + 24


def test_what_happened_is_recorded_and_said(traffic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.kvrec"
    frame_of_run = frame(capsys, "--traffic", traffic, "--record", str(path))
    with Recording(path) as recording:
        view = recording.timeline.view_at(recording.timeline.end)
    assert view.counters.completed == 6
    assert view.step == frame_of_run["step"]
    assert cli.main(["replay", str(path), "--json"]) == 0
    replayed = json.loads(capsys.readouterr().out)
    told = {"state", "findings"}  # words of the moment; what only lasted is found by watching on
    assert {key: replayed[key] for key in replayed.keys() - told} == {
        key: frame_of_run[key] for key in frame_of_run.keys() - told
    }


def test_a_recording_is_never_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.kvrec"
    path.write_text("mine")
    assert cli.main([*FRAME, "--once", "--record", str(path)]) == 1
    assert "exists already" in capsys.readouterr().err
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--sim", "--once", "--model", "x"), "--sim runs no model; leave out --model"),
        (("--sim", "--once", "--dtype", "float32"), "leave out --dtype"),
        (("--sim", "--once", "--steps", "3"), "--steps says when to print a frame; it needs --traffic"),
        (("--sim", "--json", "--paused"), "--paused waits for somebody to go on"),
        (("--sim", "--once", "--record-limit", "1GiB"), "say with --record FILE where it goes"),
        (("--sim", "--once", "--record", "x", "--record-limit", "10"), "expected 1 MiB or more"),
    ],
)
def test_flags_that_do_not_go_together_are_wrong_usage(
    flags: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["live", *flags])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("odd_engine", "words"),
    [
        ("no-model", "kvtop: there is no such model; pull one"),
        ("dies", "kvtop: the engine process was killed by SIGKILL"),
        ("fails", "kvtop: a fault in a step of"),
    ],
    indirect=["odd_engine"],
)
@pytest.mark.usefixtures("odd_engine")
def test_an_engine_that_fails_is_a_line_and_exit_code_1(
    words: str, traffic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.kvrec"
    assert cli.main([*FRAME, "--json", "--traffic", traffic, "--record", str(path)]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert words in shown.err and "Traceback" not in shown.err
    assert psutil.Process().children() == []


@pytest.mark.parametrize("odd_engine", ["fails"], indirect=True)
@pytest.mark.usefixtures("odd_engine")
def test_debug_shows_where_in_the_engine_it_failed(traffic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*FRAME, "--debug", "--once", "--traffic", traffic]) == 1
    assert "in fail" in capsys.readouterr().err


def test_a_refused_workload_is_a_line_and_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "load.json"
    path.write_text('{"requests": [{"id": "a", "prompt_token_ids": [999999999]}]}')
    assert cli.main([*FRAME, "--once", "--traffic", str(path)]) == 1
    assert "outside the vocabulary" in capsys.readouterr().err


def test_no_torch_no_textual_and_nothing_of_a_model_is_imported() -> None:
    code = (
        "import sys; from kvtop.cli import main; main(['live', '--sim', '--once']);"
        "print(sorted({'torch', 'transformers', 'textual'} & sys.modules.keys()), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr.splitlines()[-1] == "[]"
