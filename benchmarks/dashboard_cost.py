"""What the open dashboard costs the engine: decode steps with and without it, on the real model.

    python -m benchmarks.dashboard_cost [--rounds N] [--chart FILE.svg]

16 requests decode 200 tokens each, once under ``kvtop live`` on a terminal of 200 × 50 that is read all the time, once
under ``kvtop run``; in turn, each in a new process. A step's time is the mean over the steps in which all 16 decode,
since frames hit only some of them. The last line is engine speed with the dashboard ÷ without.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from itertools import pairwise
from pathlib import Path

from benchmarks.chart import RATIOS, Bar, draw
from benchmarks.cpu.quiet import QuietCheck
from kvtop.engine.events import Batch, StepTimed
from kvtop.settings import DEFAULT_MODEL
from kvtop.sources.recording import Recording

SEQUENCES = 16
TOKENS = 200
AT_LEAST = 0.95
FLAGS = ("--num-blocks", "400", "--no-prefix-cache")


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
            shown_s = _step_with_dashboard(workload, Path(folder, f"{number}.kvrec"))
            bare_s = _step_without(workload)
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


def _step_without(workload: Path) -> float:
    command = [sys.executable, "-m", "kvtop", "run", str(workload), "--json", *FLAGS]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return statistics.fmean(answer["requests"][0]["outputs"][0]["itl_s"][1:])


def _step_with_dashboard(workload: Path, recording: Path) -> float:
    master, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "kvtop", "live", "--traffic", str(workload), "--record", str(recording), *FLAGS],
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
    )  # fmt: skip
    try:
        until = time.monotonic() + 120
        while time.monotonic() < until and not (recording.exists() and _finished(recording)):
            pause = time.monotonic() + 2
            while time.monotonic() < pause:
                if select.select([master], [], [], 0.1)[0]:
                    os.read(master, 65_536)
        os.write(master, b"q")
        while process.poll() is None:
            if select.select([master], [], [], 0.1)[0]:
                os.read(master, 65_536)
    finally:
        process.kill()
        process.wait()
        os.close(master)
        os.close(theirs)
    with Recording(recording) as recorded:
        batches = [batch for batch in recorded.timeline.batches(0) if batch.snapshot is None]
    ends = [batch.monotonic_s for batch in batches if _decoded(batch) == SEQUENCES]
    if len(ends) < TOKENS // 2:
        raise SystemExit(f"only {len(ends)} full decode steps were recorded within two minutes")
    return statistics.fmean(later - now for now, later in pairwise(ends))


def _finished(recording: Path) -> bool:
    """The engine wrote nothing for two seconds after it wrote something."""
    size, written_s = recording.stat().st_size, recording.stat().st_mtime
    return size > 20_000 and time.time() - written_s > 2


def _decoded(batch: Batch) -> int:
    return sum(event.decode_tokens for event in batch.events if isinstance(event, StepTimed))


if __name__ == "__main__":
    sys.exit(main())
