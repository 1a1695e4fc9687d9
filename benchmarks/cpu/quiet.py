"""Is the machine quiet? How much of it other processes used while something was measured.

Ratios of two programs that run in turn survive a busy machine badly: whoever has more threads waiting loses more. A
measurement during which others took more than ``MOST_OTHERS`` of a core is repeated, and marked if it stays so.
"""

from __future__ import annotations

import os
import time

import psutil

MOST_OTHERS = 0.15
"""Cores."""


class QuietCheck:
    """``with QuietCheck() as check: …``, then ``check.others``: cores used by processes outside this one's tree."""

    others = 0.0

    def __enter__(self) -> QuietCheck:
        self._wall, self._busy, self._own = time.monotonic(), _busy_seconds(), _own_seconds()
        return self

    def __exit__(self, *_: object) -> None:
        wall = time.monotonic() - self._wall
        self.others = max(0.0, (_busy_seconds() - self._busy) - (_own_seconds() - self._own)) / wall

    @property
    def quiet(self) -> bool:
        return self.others <= MOST_OTHERS


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.system + times.nice)


def _own_seconds() -> float:
    """CPU seconds of this process and its children, ended ones included."""
    times = os.times()
    running = sum(
        sum(child.cpu_times()[:2]) for child in psutil.Process().children(recursive=True) if child.is_running()
    )
    return times.user + times.system + times.children_user + times.children_system + running
