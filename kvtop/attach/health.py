"""Whether a target answers, how old what we know is, and when to ask next: a small state machine without a clock.

Three missed scrapes make what is shown stale: its values stay, with their age. From then on the target is asked less
and less often, up to MAX_BACKOFF_SECONDS, and one answer brings everything back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MISSES_TO_STALE = 3
MAX_BACKOFF_SECONDS = 30.0

HealthState = Literal["connecting", "live", "late", "stale", "refused"]
"""``connecting``: no answer yet. ``late``: one or two scrapes missed. ``stale``: three or more. ``refused``: it
answers, and what it says is not metrics of a server we know."""


@dataclass(slots=True)
class Health:
    """Times are the caller's seconds."""

    interval_s: float
    state: HealthState = "connecting"
    answered_s: float | None = None
    """When it last told readings; None: never."""
    misses: int = 0
    reason: str = ""
    """Why the last scrape brought nothing; empty when it did."""
    next_s: float = 0.0
    """When to ask next."""

    def answered(self, now_s: float) -> None:
        """Readings came."""
        self.state = "live"
        self.answered_s = now_s
        self.misses = 0
        self.reason = ""
        self.next_s = now_s + self.interval_s

    def missed(self, now_s: float, reason: str) -> None:
        """No answer came: refused, timed out, or an HTTP error."""
        self.misses += 1
        self.reason = reason
        if self.misses >= MISSES_TO_STALE:
            self.state = "stale"
        elif self.answered_s is not None:
            self.state = "late"
        self.next_s = now_s + self._pause_s()

    def refused(self, now_s: float, reason: str) -> None:
        """It answered with something else than metrics."""
        self.missed(now_s, reason)
        self.state = "refused"

    def age_s(self, now_s: float) -> float | None:
        """How old the newest readings are; None when there are none."""
        return None if self.answered_s is None else now_s - self.answered_s

    @property
    def is_stale(self) -> bool:
        """What is known is too old to be taken for now."""
        return self.state in ("stale", "refused")

    def _pause_s(self) -> float:
        doubled = self.interval_s * 2.0 ** max(0, min(self.misses - MISSES_TO_STALE + 1, 10))
        return max(self.interval_s, min(doubled, MAX_BACKOFF_SECONDS))
