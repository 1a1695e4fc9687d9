"""All that metrics tell of one server: its health, its ranks, their last minute.

Pure: what the scraper brought goes in with its time, figures come out. Values of a server that no longer answers stay,
with their age; nothing is made up for them.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvtop.attach.exposition import NotMetrics, PageReader
from kvtop.attach.health import Health
from kvtop.attach.history import RankHistory
from kvtop.attach.targets import Target


@dataclass(frozen=True, slots=True)
class Scrape:
    """What asking a page once brought: ``page`` and its HTTP ``status``, or a ``failure`` in words."""

    target: Target
    asked_s: float
    answered_s: float
    status: int = 0
    page: str = ""
    failure: str = ""


class ServerWatch:
    """``take`` every scrape; read ``health`` and ``ranks`` between two of them."""

    def __init__(self, target: Target, interval_s: float = 1.0) -> None:
        self.target = target
        self.health = Health(interval_s)
        self.ranks: dict[str, RankHistory] = {}
        """By rank label, in order."""
        self.gone: dict[str, float] = {}
        """Ranks that a page no longer carried → when that was first seen."""
        self.restarted_s: float | None = None
        """When a restart was last noticed."""
        self.last_life_s: float | None = None
        """When the life before that restart last answered."""
        self._reader = PageReader()

    def take(self, scrape: Scrape) -> None:
        """Note what a scrape brought."""
        now_s = scrape.answered_s
        if scrape.failure:
            self.health.missed(now_s, scrape.failure)
            return
        if scrape.status != 200:
            self.health.missed(now_s, f"HTTP status {scrape.status}")
            return
        try:
            readings = self._reader.read(scrape.page)
        except NotMetrics as error:
            self.health.refused(now_s, str(error))
            return
        for reading in readings:
            history = self.ranks.setdefault(reading.rank, RankHistory())
            if history.add(now_s, reading):
                self.restarted_s, self.last_life_s = now_s, self.health.answered_s
        told = {reading.rank for reading in readings}
        self.gone = {rank: self.gone.get(rank, now_s) for rank in self.ranks if rank not in told}
        self.health.answered(now_s)
