"""When the operator had the engine paused: nobody waits for blocks or stands still for want of them meanwhile, so that
time is taken off what is told of waits and freezes. The oldest pauses are forgotten.
"""

from __future__ import annotations

from collections import deque

MOST_PAUSES = 500


class Pauses:
    """Spans of wall time, in seconds, the one that goes on included."""

    def __init__(self) -> None:
        self._over: deque[tuple[float, float]] = deque(maxlen=MOST_PAUSES)
        self._since: float | None = None

    def note(self, paused: bool, wall_s: float) -> None:
        """From ``wall_s`` on the engine is paused, or runs; nothing happens when it did already."""
        if paused and self._since is None:
            self._since = wall_s
        elif not paused and self._since is not None:
            self._over.append((self._since, wall_s))
            self._since = None

    def outside(self, since_s: float, until_s: float) -> float:
        """Seconds from ``since_s`` to ``until_s`` in which the engine was not paused; never negative."""
        seconds = until_s - since_s
        for begin, end in self._over:
            seconds -= max(0.0, min(until_s, end) - max(since_s, begin))
        if self._since is not None:
            seconds -= max(0.0, until_s - max(since_s, self._since))
        return max(0.0, seconds)
