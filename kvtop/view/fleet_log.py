"""Findings about servers over time: what stands now, since when, and what has passed. The clock is the caller's.

A case fires when it is seen and stays until it was not seen for UNTIL_SECONDS, so that it does not flicker; the figures
it rests on cover a window already (see fleet_findings).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace

from kvtop.view.finding import WEIGHTS, Case, Finding

UNTIL_SECONDS = 5.0
PAST_FINDINGS = 100


class FleetLog:
    def __init__(self) -> None:
        self.past: deque[Finding] = deque(maxlen=PAST_FINDINGS)
        """What has resolved, the latest last."""
        self._standing: dict[str, Finding] = {}

    @property
    def standing(self) -> list[Finding]:
        """The gravest first, then the oldest."""
        return sorted(self._standing.values(), key=lambda found: (WEIGHTS.index(found.case.weight), found.since_s))

    def observe(self, cases: Mapping[str, Case], now_s: float) -> None:
        """What is so at ``now_s``, by key."""
        for key, case in cases.items():
            before = self._standing.get(key)
            if before is None:
                self._standing[key] = Finding(key, case, since_s=now_s, since_step=0, seen_s=now_s)
            else:
                self._standing[key] = replace(before, case=case, seen_s=now_s)
        for key, finding in list(self._standing.items()):
            if now_s - finding.seen_s >= UNTIL_SECONDS:
                self.past.append(replace(finding, resolved_s=now_s))
                del self._standing[key]
