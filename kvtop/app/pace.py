"""How often to draw: ten times a second, less on a slow link.

Textual hands frames to a writer thread and blocks its loop once thirty of them wait, so on a slow link a fixed rate
makes keys lag by seconds. Here a frame is drawn only when the writer has caught up, the interval doubles while it has
not, and it recovers slowly. It looks at a backlog and a clock, nothing else.
"""

from __future__ import annotations

SLOWEST_S = 2.0
CALM_FRAMES = 20
"""Frames in a row without a backlog before the interval shrinks."""


class Pace:
    def __init__(self, frames_per_second: float) -> None:
        self._shortest_s = 1 / frames_per_second
        self.interval_s = self._shortest_s
        self._next_s = 0.0
        self._calm = 0

    def due(self, now_s: float, backlog: int) -> bool:
        """Whether to draw now; ``backlog`` is how much still waits to be written."""
        if now_s < self._next_s:
            return False
        if backlog:
            self._calm = 0
            self.interval_s = min(SLOWEST_S, 2 * self.interval_s)
            self._next_s = now_s + self.interval_s
            return False
        self._calm += 1
        if self._calm >= CALM_FRAMES and self.interval_s > self._shortest_s:
            self._calm = 0
            self.interval_s = max(self._shortest_s, self.interval_s * 0.8)
        self._next_s = now_s + self.interval_s - self._shortest_s / 10  # a tick that comes a little early still counts
        return True
