"""The last minute of one rank's readings, and what can be said of it: rates, windowed quantiles and hit rates.

Everything is a difference of two counters over the time between them; a difference that a restart lies in is not given.
Time is the caller's (seconds, rising). None is unknown.
"""

from __future__ import annotations

from collections import deque

from kvtop.attach.exposition import Reading
from kvtop.attach.histogram import Histogram
from kvtop.attach.trail import Trail

WINDOW_SECONDS = 60.0
SPACING_SECONDS = 2.5
"""Readings closer together than this are not all kept."""


class RankHistory:
    """``add`` each reading as it comes; everything else asks."""

    def __init__(self) -> None:
        self.last: Reading | None = None
        self.last_s = 0.0
        self.restarts = 0
        """Restarts of the server that were seen."""
        self.restarted_s: float | None = None
        """When the newest of them was seen; its first interval has no rates."""
        self.trail = Trail()
        """The last quarter of an hour, for charts."""
        self._kept: deque[tuple[float, Reading]] = deque()

    def add(self, now_s: float, reading: Reading) -> bool:
        """Take a reading over; True when it shows that the server began anew since the one before."""
        fresh = self.last is not None and began_anew(self.last, reading)
        if fresh:
            self._kept.clear()
            self.restarts += 1
            self.restarted_s = now_s
        self.trail.add(now_s, reading, fresh)
        if not self._kept or now_s - self._kept[-1][0] >= SPACING_SECONDS:
            self._kept.append((now_s, reading))
        while len(self._kept) > 2 and self._kept[1][0] <= now_s - WINDOW_SECONDS:
            self._kept.popleft()
        self.last, self.last_s = reading, now_s
        return fresh

    def span_s(self, window_s: float = WINDOW_SECONDS) -> float:
        """Seconds that windowed figures cover: up to ``window_s``, 0 while there is one reading only."""
        return self.last_s - self._first(window_s)[0] if self._kept else 0.0

    def rate(self, figure: str, window_s: float = WINDOW_SECONDS) -> float | None:
        """A counter's rise a second."""
        rise, span = self.rise(figure, window_s), self.span_s(window_s)
        return None if rise is None or span <= 0 else rise / span

    def rise(self, figure: str, window_s: float = WINDOW_SECONDS) -> float | None:
        """A counter's rise over the window."""
        if self.last is None or self.span_s(window_s) <= 0:
            return None
        _, first = self._first(window_s)
        if figure not in first.counters or figure not in self.last.counters:
            return None
        return self.last.counters[figure] - first.counters[figure]

    def hit_rate(self, window_s: float = WINDOW_SECONDS) -> float | None:
        """Prefix tokens found of those looked up in the window; None when none were."""
        queried, hit = self.rise("prefix_queried", window_s), self.rise("prefix_hit", window_s)
        return hit / queried if queried and hit is not None else None

    def hit_rate_since_start(self) -> float | None:
        """The same since the server started."""
        if self.last is None:
            return None
        queried, hit = self.last.counters.get("prefix_queried"), self.last.counters.get("prefix_hit")
        return hit / queried if queried and hit is not None else None

    def histogram(self, figure: str, window_s: float = WINDOW_SECONDS) -> Histogram | None:
        """What a histogram gained in the window; None before there are two readings."""
        if self.last is None or self.span_s(window_s) <= 0:
            return None
        _, first = self._first(window_s)
        now = self.last.histograms.get(figure)
        before = first.histograms.get(figure)
        return now.since(before) if now and before else None

    def _first(self, window_s: float) -> tuple[float, Reading]:
        """The newest reading that is at least ``window_s`` old, else the oldest one."""
        best = self._kept[0]
        for entry in self._kept:
            if self.last_s - entry[0] < window_s:
                break
            best = entry
        return best


def began_anew(before: Reading, now: Reading) -> bool:
    """The process has another start time, or a counter fell."""
    if before.started_s is not None and now.started_s is not None and before.started_s != now.started_s:
        return True
    return any(now.counters.get(name, value) < value for name, value in before.counters.items())
