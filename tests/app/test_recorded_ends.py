"""``kvtop live --record`` on a real terminal: however it ends, the recording replays up to the last step seen."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kvtop.sources.recording import Recording
from kvtop.view.pool_view import PoolView
from tests.app.test_terminal import Terminal, gone


class Recorded:
    """The command, busy and recording."""

    def __init__(self, folder: Path, *flags: str) -> None:
        requests = [{"id": f"r{i}", "prompt": f"{i} " * 40, "max_tokens": 4_000, "ignore_eos": True} for i in range(6)]
        (folder / "load.json").write_text(json.dumps({"requests": requests}))
        self.file = folder / "a.kvrec"
        command = [sys.executable, "-m", "kvtop", "live", "--sim", "--traffic", str(folder / "load.json")]
        self.terminal = Terminal(folder / "pid", command=[*command, "--record", str(self.file), *flags])
        self.terminal.wait_for("running")
        until = time.monotonic() + 20
        first = self.file.stat().st_size
        while self.file.stat().st_size == first and time.monotonic() < until:
            self.terminal.read(0.05)
        (self.engine,) = psutil.Process(self.terminal.process.pid).children()

    def replayed(self) -> PoolView:
        """The end of the file."""
        with Recording(self.file) as recording:
            assert recording.lost_bytes == 0
            return recording.timeline.view_at(recording.timeline.end)


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Recorded]:
    opened = Recorded(tmp_path)
    yield opened
    opened.terminal.close()


def test_after_a_signal_the_recording_is_whole_and_said(recorded: Recorded) -> None:
    recorded.terminal.process.send_signal(signal.SIGTERM)
    assert recorded.terminal.wait() == 128 + signal.SIGTERM
    view = recorded.replayed()
    assert view.step > 5 and len(view.sequences) == 6
    assert recorded.terminal.restored() and gone(recorded.engine.pid)
    assert f"recorded up to step {view.step}" in recorded.terminal.output


def test_after_the_terminal_was_closed_the_recording_is_whole(recorded: Recorded) -> None:
    os.close(recorded.terminal.master)
    os.close(recorded.terminal._theirs)
    assert recorded.terminal.process.wait(10) != 0
    assert recorded.replayed().step > 5
    assert gone(recorded.engine.pid)


def test_after_the_program_was_killed_the_recording_is_whole_up_to_a_second_before(recorded: Recorded) -> None:
    recorded.terminal.process.kill()
    recorded.terminal.process.wait(10)
    assert recorded.replayed().step > 5
    assert gone(recorded.engine.pid)


def test_after_the_engine_was_killed_in_mid_step_the_recording_goes_up_to_its_last_step(recorded: Recorded) -> None:
    recorded.engine.kill()
    recorded.terminal.wait_for("SIGKILL")
    recorded.terminal.press("q")
    assert recorded.terminal.wait() == 0
    view = recorded.replayed()
    assert view.step > 5 and view.incomplete_since is None
    assert f"recorded up to step {view.step}" in recorded.terminal.output
