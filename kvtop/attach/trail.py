"""What one rank told over the last minutes, thinned to what a chart can show: a point a second at most."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from kvtop.attach.exposition import Reading

KEEP_SECONDS = 900.0
SPACING_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Point:
    """One moment. What was not told is None."""

    at_s: float
    usage: float | None
    running: float | None
    waiting: float | None
    prompt_tokens_per_s: float | None
    """Since the point before, like those that follow; None after a restart."""
    generated_tokens_per_s: float | None
    preemptions: float | None


class Trail:
    """``add`` each reading; ``points`` are in order of time. A gap in them is a time in which nothing came."""

    def __init__(self) -> None:
        self.points: deque[Point] = deque()
        self._last: tuple[float, Reading] | None = None

    def add(self, now_s: float, reading: Reading, fresh: bool) -> None:
        """Take a reading over; ``fresh``: the server began anew since the one before."""
        if self._last is not None and now_s - self._last[0] < SPACING_SECONDS and not fresh:
            return
        before = None if fresh else self._last
        self._last = (now_s, reading)
        gauges = reading.gauges
        self.points.append(
            Point(
                now_s,
                gauges.get("usage"),
                gauges.get("running"),
                gauges.get("waiting"),
                _rate(before, now_s, reading, "prompt_tokens"),
                _rate(before, now_s, reading, "generated_tokens"),
                _rise(before, reading, "preemptions"),
            )
        )
        while self.points[0].at_s < now_s - KEEP_SECONDS:
            self.points.popleft()


def _rise(before: tuple[float, Reading] | None, now: Reading, figure: str) -> float | None:
    if before is None or figure not in before[1].counters or figure not in now.counters:
        return None
    return now.counters[figure] - before[1].counters[figure]


def _rate(before: tuple[float, Reading] | None, now_s: float, now: Reading, figure: str) -> float | None:
    rise = _rise(before, now, figure)
    return None if rise is None or before is None or now_s <= before[0] else rise / (now_s - before[0])
