"""When the operator let the engine stand paused: nobody waits for blocks or stands still for want of them meanwhile, so
that time is taken off what is told of waits and freezes. Steps that were asked for one by one take their time all the
same, so each of them cuts the pause it falls into. The oldest pauses are forgotten.
"""

from __future__ import annotations

from bisect import bisect_left

MOST_PAUSES = 1_000
SHORTEST_PAUSE_S = 0.02
"""What passes between two steps of one run (``>``) is the engine's own time; no operator is that quick."""


class Pauses:
    """Spans of wall time, in seconds, the one that goes on included."""

    def __init__(self, over: list[tuple[float, float]] | None = None, since: float | None = None) -> None:
        """``over`` are pauses that have ended, oldest first, ``since`` the begin of the one that goes on."""
        self._begins = [begin for begin, _ in over or ()]
        self._ends = [end for _, end in over or ()]
        self._since = since
        self._sum_up()

    def _sum_up(self) -> None:
        self._before = [0.0]
        """Seconds paused before pause i, of those that are kept."""
        for begin, end in self.over:
            self._before.append(self._before[-1] + end - begin)

    @property
    def over(self) -> list[tuple[float, float]]:
        """Begin and end of the pauses that are kept and have ended, oldest first."""
        return list(zip(self._begins, self._ends, strict=True))

    @property
    def since(self) -> float | None:
        """Since when it stands; None while it runs."""
        return self._since

    def note(self, paused: bool, wall_s: float) -> None:
        """From ``wall_s`` on the engine is paused, or runs; nothing happens when it did already."""
        if paused and self._since is None:
            self._since = max(wall_s, self._ends[-1]) if self._ends else wall_s
        elif not paused and self._since is not None:
            self._close(self._since, wall_s)
            self._since = None

    def step_ran(self, began_s: float, ended_s: float) -> None:
        """A step was computed; was the engine paused before it, then it is again after it."""
        if self._since is not None:
            self._close(self._since, began_s)
            self._since = max(self._since, ended_s)

    def _close(self, begin: float, end: float) -> None:
        if end - begin < SHORTEST_PAUSE_S:
            return
        self._begins.append(begin)
        self._ends.append(end)
        self._before.append(self._before[-1] + end - begin)
        if len(self._ends) > MOST_PAUSES:
            del self._begins[: MOST_PAUSES // 10], self._ends[: MOST_PAUSES // 10]
            self._sum_up()

    def outside(self, since_s: float, until_s: float) -> float:
        """Seconds from ``since_s`` to ``until_s`` in which the engine was not paused; never negative."""
        return max(0.0, until_s - since_s - self._paused_before(until_s) + self._paused_before(since_s))

    def _paused_before(self, wall_s: float) -> float:
        """Seconds paused up to then, of the pauses that are kept."""
        count = bisect_left(self._ends, wall_s)
        seconds = self._before[count]
        if count < len(self._begins):
            seconds += max(0.0, wall_s - self._begins[count])
        elif self._since is not None:
            seconds += max(0.0, wall_s - self._since)
        return seconds
