"""The engine in its own process, simulated: started, commanded, lost, killed, orphaned."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from kvtop.engine.control import (
    Abort,
    AnyCommand,
    BatchMessage,
    Inject,
    Pause,
    Reply,
    Resume,
    Status,
    Step,
    TakeSnapshot,
)
from kvtop.engine.requests import Request
from kvtop.settings import EngineSettings
from kvtop.sources import embedded
from kvtop.sources.embedded import EmbeddedSource
from kvtop.sources.file_sink import FileSink
from kvtop.sources.recorder import Recorder
from kvtop.sources.recording import Recording
from kvtop.view.keyframe import dump_view
from kvtop.view.pool_view import PoolView
from tests.sources.traffic import requests

ODD_ENGINE = str(Path(__file__).with_name("odd_engine.py"))
SETTINGS = EngineSettings(num_blocks=60, max_num_seqs=8)
PATIENCE_SECONDS = 20.0


class Watched:
    """A source with a view, polled until something holds."""

    def __init__(self, how: str = "well", recorder: Recorder | None = None) -> None:
        command = (sys.executable, ODD_ENGINE, how)
        self.source = EmbeddedSource(SETTINGS, command, recorder.add if recorder else None)
        self.view = PoolView()
        self.statuses: list[Status] = []
        self.replies: dict[int, Reply] = {}
        self.batches = 0
        self.source.start()

    def poll(self) -> None:
        for message in self.source.poll():
            if isinstance(message, BatchMessage):
                self.view.apply(message.batch)
                self.batches += 1
            elif isinstance(message, Status):
                self.statuses.append(message)
            elif isinstance(message, Reply):
                self.replies[message.ticket] = message

    def until(self, holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"waited in vain; statuses {self.statuses}"
            time.sleep(0.005)
            self.poll()

    def ask(self, command: AnyCommand) -> Reply:
        self.source.send(command)
        self.until(lambda: command.ticket in self.replies)
        return self.replies[command.ticket]

    @property
    def state(self) -> str:
        return self.statuses[-1].state if self.statuses else ""


@pytest.fixture
def watch() -> Iterator[Callable[..., Watched]]:
    watched: list[Watched] = []

    def start(*arguments: object) -> Watched:
        watched.append(Watched(*arguments))  # type: ignore[arg-type]
        return watched[-1]

    yield start
    for each in watched:
        each.source.close()


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_it_runs_what_is_injected_and_comes_to_rest(watch: Callable[..., Watched]) -> None:
    engine = watch()
    assert engine.ask(Inject(ticket=7, requests=requests(6))) == Reply(ticket=7, value=6)
    engine.until(lambda: engine.view.counters.completed == 6)
    engine.until(lambda: engine.state == "idle")
    assert [status.state for status in engine.statuses if status.state != "loading"][-2:] == ["running", "idle"]
    assert engine.view.blocks.active == 0


def test_between_two_arrivals_it_is_idle_and_says_that_more_comes(watch: Callable[..., Watched]) -> None:
    engine = watch()
    first, second = requests(2)
    engine.ask(Inject(ticket=7, requests=[first, msgspec.structs.replace(second, arrival_s=1.5)]))
    engine.until(lambda: engine.view.counters.completed == 1)
    engine.until(lambda: engine.statuses[-1] == Status(state="idle", detail="traffic to come"))
    engine.until(lambda: engine.view.counters.completed == 2)
    engine.until(lambda: engine.statuses[-1] == Status(state="idle"))
    said = [status.state for status in engine.statuses if status.state != "loading"]
    assert said[-4:] == ["running", "idle", "running", "idle"]


def test_a_paused_or_idle_engine_takes_no_time(watch: Callable[..., Watched]) -> None:
    engine = watch()
    engine.until(lambda: engine.state == "idle")
    assert engine.source.pid is not None
    process = psutil.Process(engine.source.pid)
    before = sum(process.cpu_times()[:2])
    time.sleep(0.5)
    assert sum(process.cpu_times()[:2]) - before <= 0.02


def test_it_pauses_between_steps_steps_one_and_runs_on(watch: Callable[..., Watched]) -> None:
    engine = watch()
    engine.ask(Pause(ticket=1))
    engine.ask(Inject(ticket=2, requests=requests(4)))
    engine.until(lambda: len(engine.view.sequences) == 4)
    assert (engine.view.step, engine.view.paused) == (0, True)
    engine.ask(Step(ticket=3, steps=3))
    engine.until(lambda: engine.view.step == 3)
    time.sleep(0.05)
    engine.poll()
    assert (engine.view.step, engine.state) == (3, "paused")
    engine.ask(Resume(ticket=4))
    engine.until(lambda: engine.view.counters.completed == 4)


def test_a_step_waits_for_the_next_arrival_when_there_is_nothing_else_to_do(watch: Callable[..., Watched]) -> None:
    engine = watch()
    engine.ask(Pause(ticket=1))
    engine.ask(Inject(ticket=2, requests=[Request(id="req-1", prompt="a block", arrival_s=0.2)]))
    engine.ask(Step(ticket=3))
    engine.until(lambda: engine.view.step == 1)
    assert [sequence.tokens for sequence in engine.view.sequences.values()] == [3]


def test_what_is_refused_is_answered_with_the_reason(watch: Callable[..., Watched]) -> None:
    engine = watch()
    assert "nobody" in engine.ask(Abort(ticket=5, request_id="nobody")).error


def test_text_that_is_no_unicode_is_refused_before_it_is_sent(watch: Callable[..., Watched]) -> None:
    engine = watch()
    with pytest.raises(ValueError, match="inject: holds text that is not valid Unicode"):
        engine.source.send(Inject(requests=[Request(id="req-1", prompt="\ud800")]))


def test_a_reader_that_lags_sees_a_gap_and_a_snapshot_makes_it_whole(
    watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "MAX_BATCHES", 20)
    engine = watch()
    engine.until(lambda: engine.view.info is not None)
    engine.source.send(Inject(requests=requests(40, longest=200)))
    time.sleep(0.6)
    engine.poll()
    assert engine.batches <= 30
    assert engine.view.incomplete_since is not None
    engine.source.send(TakeSnapshot())
    engine.until(lambda: engine.view.incomplete_since is None)
    engine.until(lambda: engine.view.counters.completed == 40)
    engine.until(lambda: engine.state == "idle")
    blocks = engine.view.blocks
    assert (blocks.active, blocks.free + blocks.cached) == (0, 60)


def test_a_killed_engine_is_reported_and_the_recording_holds_every_whole_step(
    watch: Callable[..., Watched], tmp_path: Path
) -> None:
    recorder = Recorder([FileSink(tmp_path / "a.kvrec")])
    engine = watch("well", recorder)
    engine.source.send(Inject(requests=requests(40, longest=200)))
    engine.until(lambda: engine.view.step > 30)
    assert engine.source.pid is not None and engine.source.alive
    os.kill(engine.source.pid, signal.SIGKILL)
    engine.until(lambda: engine.state == "failed")
    assert not engine.source.alive
    assert engine.statuses[-1].detail == "the engine process was killed by SIGKILL"
    engine.poll()
    recorder.close()
    with Recording(tmp_path / "a.kvrec") as recording:
        assert dump_view(recording.timeline.view_at(recording.timeline.end)) == dump_view(engine.view)


def test_an_engine_that_dies_in_its_first_step_is_reported(watch: Callable[..., Watched]) -> None:
    engine = watch("dies")
    engine.source.send(Inject(requests=requests(1)))
    engine.until(lambda: engine.state == "failed")
    assert "SIGKILL" in engine.statuses[-1].detail


@pytest.mark.parametrize(
    ("how", "detail", "traceback"),
    [
        ("no-model", "there is no such model; pull one", ""),
        ("bug", "a fault in loading", "ZeroDivisionError"),
        ("fails", "a fault in a step", "in fail"),
    ],
)
def test_a_failure_is_told_with_its_traceback_only_where_one_says_more(
    watch: Callable[..., Watched], how: str, detail: str, traceback: str
) -> None:
    engine = watch(how)
    engine.source.send(Inject(requests=requests(1)))
    engine.until(lambda: engine.state == "failed")
    assert detail in engine.statuses[-1].detail
    assert traceback in engine.statuses[-1].traceback
    assert bool(traceback) == bool(engine.statuses[-1].traceback)
    pid = engine.source.pid
    assert pid is not None
    engine.until(lambda: gone(pid))


def test_what_the_engine_prints_stays_off_the_screen_and_is_bounded(
    watch: Callable[..., Watched], capfd: pytest.CaptureFixture[str]
) -> None:
    engine = watch("chatty")
    engine.until(lambda: engine.state == "idle")
    assert any((status.detail, status.done, status.total) == ("reading", 1, 2) for status in engine.statuses)
    assert engine.source._engine is not None
    printed = engine.source._engine.printed()
    assert "a library says something" in printed
    assert len(printed) <= embedded.MAX_PRINTED_BYTES
    assert capfd.readouterr() == ("", "")


def test_closing_ends_the_process_at_once_even_in_a_step_that_never_ends(watch: Callable[..., Watched]) -> None:
    engine = watch("hangs")
    engine.ask(Inject(ticket=1, requests=requests(1)))
    pid = engine.source.pid
    assert pid is not None
    started = time.monotonic()
    engine.source.close()
    assert time.monotonic() - started < 1
    assert gone(pid)
    engine.source.close()


def test_it_starts_again_from_nothing(watch: Callable[..., Watched]) -> None:
    engine = watch()
    engine.ask(Inject(ticket=1, requests=requests(3)))
    engine.until(lambda: engine.view.step > 2)
    first = engine.source.pid
    engine.source.restart()
    assert first is not None and gone(first)
    engine.view, engine.batches = PoolView(), 0
    engine.until(lambda: engine.view.info is not None)
    assert (engine.view.number, engine.view.step, engine.view.counters.requests) == (1, 0, 0)


def test_two_engines_at_once_do_not_meet(watch: Callable[..., Watched]) -> None:
    one, other = watch(), watch()
    one.ask(Inject(ticket=1, requests=requests(2)))
    one.until(lambda: one.view.counters.completed == 2)
    other.until(lambda: other.state == "idle")
    assert other.view.counters.requests == 0


@pytest.mark.parametrize("how", ["well", "hangs"])
def test_an_orphaned_engine_ends_within_seconds_even_in_mid_step(how: str) -> None:
    parent = f"""
import sys, time
sys.path.insert(0, {str(Path(ODD_ENGINE).parents[2])!r})
from kvtop.engine.control import Inject
from kvtop.sources.embedded import EmbeddedSource
from kvtop.settings import EngineSettings
from tests.sources.traffic import requests
source = EmbeddedSource(EngineSettings(num_blocks=60), (sys.executable, {ODD_ENGINE!r}, {how!r}))
source.start()
source.send(Inject(ticket=1, requests=requests(1)))
while not any(getattr(message, "ticket", 0) for message in source.poll()):
    time.sleep(0.01)
print(source.pid, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert not gone(pid)
        process.kill()
    deadline = time.monotonic() + 4
    while not gone(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert gone(pid)
