"""The lab against a plain program: the whole published table, in one run, row by row.

The plain program is the transcription that the tests compare with: it visits every running request in every step and
counts held slots anew whenever it asks for them. Seconds are CPU seconds of one process, the lab's the best of some
runs; the last line is the command as a user runs it, on the wall.

    python -m benchmarks.sim [--chart FILE.svg]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchmarks.chart import RATIOS, Bar, draw
from kvtop.lab.experiment import PUBLISHED_ROWS
from kvtop.lab.runs import run_one, usable_cores
from tests.lab.plain import plain

RUNS = 3
AT_LEAST = 5
Figures = TypeVar("Figures")


def timed(run: Callable[[], Figures]) -> tuple[Figures, float]:
    """What it returns, and the CPU seconds it took."""
    started = time.process_time()
    figures = run()
    return figures, time.process_time() - started


def main() -> int:
    parser = argparse.ArgumentParser(description="the lab beside a plain program")
    parser.add_argument("--chart", type=Path)
    chart = parser.parse_args().chart
    bars: list[Bar] = []
    total_plain = total_lab = 0.0
    print(f"{'row':<34}{'plain':>9}{'lab':>9}{'ratio':>8}")
    for experiment in PUBLISHED_ROWS:
        policy, size = experiment.policy, experiment.block_size
        expected, plain_s = timed(partial(plain, policy, size))
        outcomes = [timed(partial(run_one, experiment, True, None)) for _ in range(RUNS)]
        if any(outcome.figures != expected for outcome, _ in outcomes):
            print(f"the lab's figures are not those of the plain program: {expected}", file=sys.stderr)
            return 1
        lab_s = min(seconds for _, seconds in outcomes)
        name = policy if experiment.reserves else f"paged, {size}-token blocks"
        print(f"{name:<34}{plain_s:>8.2f}s{lab_s:>8.2f}s{plain_s / lab_s:>7.1f}x")
        bars.append(_bar(name, plain_s, lab_s))
        total_plain, total_lab = total_plain + plain_s, total_lab + lab_s
    print(f"{'all':<34}{total_plain:>8.2f}s{total_lab:>8.2f}s{total_plain / total_lab:>7.1f}x")
    bars.append(_bar("all four", total_plain, total_lab))
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "kvtop", "sim", "--published", "--json"], check=True, stdout=subprocess.DEVNULL
    )
    wall_s = time.perf_counter() - started
    print(f"kvtop sim --published on {usable_cores()} cores: {wall_s:.2f} s on the wall, {total_plain / wall_s:.1f}x")
    print(f"load of the last minute: {os.getloadavg()[0]:.2f}")
    if chart:
        setting = "CPU seconds of one process; the same figures in every digit"
        draw(chart, "The published experiment, lab beside a plain program", setting, bars, RATIOS)
    return 0


def _bar(name: str, plain_s: float, lab_s: float) -> Bar:
    ratio = plain_s / lab_s
    return Bar(name, ratio, AT_LEAST, f"{ratio:.1f}× ({lab_s:.2f} s)", ratio >= AT_LEAST)


if __name__ == "__main__":
    sys.exit(main())
