"""What the open dashboard costs the engine: decode steps with and without it, on the real model.

    python -m benchmarks.dashboard_cost [--rounds N] [--chart FILE.svg]

16 requests decode 400 tokens each, once under ``kvtop live`` on a terminal of 200 × 50 that is read all the time, once
under ``kvtop run``. A round has one process of each, and they take turns of two seconds: the one that does not have the
turn is stopped, so that both see the same machine. A step's time is the mean over the steps in which all 16 decode,
since frames hit only some of them. Steps that a turn cut in two don't count, nor the first half second of a turn, in
which caches are cold and the dashboard sets its terminal up again. The last line is engine speed with ÷ without.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import psutil

from benchmarks.chart import RATIOS, Bar, draw
from benchmarks.cpu.quiet import QuietCheck
from kvtop.engine.events import Batch, StepTimed
from kvtop.settings import DEFAULT_MODEL
from kvtop.sources.recording import Recording

SEQUENCES = 16
TOKENS = 400
AT_LEAST = 0.95
TURN_S = 2.0
CUT_STEP_S = 1.0
"""A step that took longer was stopped in its midst."""
SETTLES_S = 0.5
"""After that long what was stopped is as it was."""
WITHIN_S = 180
FLAGS = ("--num-blocks", "500", "--no-prefix-cache")


def main() -> int:
    parser = argparse.ArgumentParser(description="engine speed with the dashboard beside without")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chart", type=Path)
    arguments = parser.parse_args()
    ratios: list[float] = []
    with tempfile.TemporaryDirectory() as folder, QuietCheck() as check:
        workload = Path(folder, "workload.json")
        requests = [
            {"id": f"r{i}", "prompt_token_ids": [50 + i] * 57, "max_tokens": TOKENS, "ignore_eos": True}
            for i in range(SEQUENCES)
        ]
        workload.write_text(json.dumps({"requests": requests}))
        for number in range(arguments.rounds):
            shown_s, bare_s = _steps_in_turns(workload, Path(folder, f"{number}.kvrec"), Path(folder, f"{number}.json"))
            ratios.append(bare_s / shown_s)
            print(f"with {shown_s * 1e3:.1f} ms a step, without {bare_s * 1e3:.1f} ms: {ratios[-1]:.3f}", flush=True)
    ratio = statistics.median(ratios)
    print(f"engine speed with the dashboard ÷ without: {ratio:.3f}, at least {AT_LEAST}; "
          f"other processes used {check.others:.2f} cores")  # fmt: skip
    if arguments.chart:
        bars = [Bar("with the dashboard ÷ without", ratio, AT_LEAST, f"{ratio:.3f}×", ratio >= AT_LEAST)]
        setting = f"{DEFAULT_MODEL}, {SEQUENCES} sequences decode, 200 × 50, 10 frames a second"
        draw(arguments.chart, "Engine speed while it is watched", setting, bars, RATIOS)
    return 0


def _steps_in_turns(workload: Path, recording: Path, answer: Path) -> tuple[float, float]:
    """Mean seconds of a full decode step with the dashboard and without."""
    with _bare(workload, answer) as bare, _dashboard(workload, recording) as (shown, terminal):
        until = time.monotonic() + WITHIN_S
        while time.monotonic() < until and not (bare.poll() is not None and _finished(recording)):
            for process, screen in ((shown, terminal), (bare, None)):
                _signal_tree(process.pid, signal.SIGCONT)
                _read_for(TURN_S, screen)
                _signal_tree(process.pid, signal.SIGSTOP)
        for process in (shown, bare):
            _signal_tree(process.pid, signal.SIGCONT)
        os.write(terminal, b"q")
        while shown.poll() is None:
            _read_for(0.1, terminal)
    bare_steps = json.loads(answer.read_text())["requests"][0]["outputs"][0]["itl_s"][1:]
    return _mean_s(_shown_steps(recording)), _mean_s(bare_steps)


@contextlib.contextmanager
def _bare(workload: Path, answer: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "kvtop", "run", str(workload), "--json", *FLAGS]
    with answer.open("wb") as output, _ended(subprocess.Popen(command, stdout=output)) as process:
        yield process


@contextlib.contextmanager
def _dashboard(workload: Path, recording: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """``kvtop live`` and the descriptor of its terminal."""
    master, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "kvtop", "live", "--traffic", str(workload), "--record", str(recording), *FLAGS],
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
    )  # fmt: skip
    try:
        with _ended(process):
            yield process, master
    finally:
        os.close(master)
        os.close(theirs)


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _signal_tree(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        for process in (parent, *parent.children(recursive=True)):
            process.send_signal(number)


def _read_for(seconds: float, terminal: int | None) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if terminal is None:
            time.sleep(left)
        elif select.select([terminal], [], [], left)[0]:
            with contextlib.suppress(OSError):  # it has left
                os.read(terminal, 65_536)


def _finished(recording: Path) -> bool:
    """The engine wrote nothing for two of its turns after it wrote something."""
    if not recording.exists():
        return False
    size, written_s = recording.stat().st_size, recording.stat().st_mtime
    return size > 20_000 and time.time() - written_s > 4 * TURN_S


def _shown_steps(recording: Path) -> list[float]:
    """Seconds of the full decode steps, as they were recorded."""
    with Recording(recording) as recorded:
        batches = [batch for batch in recorded.timeline.batches(0) if batch.snapshot is None]
    ends = [batch.monotonic_s for batch in batches if _decoded(batch) == SEQUENCES]
    return [later - now for now, later in pairwise(ends)]


def _mean_s(steps: list[float]) -> float:
    """Without those that a turn cut in two, and those that settle after it."""
    whole: list[float] = []
    settling_s = SETTLES_S
    for seconds in steps:
        if seconds > CUT_STEP_S:
            settling_s = SETTLES_S
        elif settling_s > 0:
            settling_s -= seconds
        else:
            whole.append(seconds)
    if len(whole) < TOKENS // 2:
        raise SystemExit(f"only {len(whole)} full decode steps within {WITHIN_S} seconds")
    return statistics.fmean(whole)


def _decoded(batch: Batch) -> int:
    return sum(event.decode_tokens for event in batch.events if isinstance(event, StepTimed))


if __name__ == "__main__":
    sys.exit(main())
