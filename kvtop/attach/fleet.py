"""Every server that is watched, at every depth it allows: metrics of all, KV events, and where true tables are told.

``poll`` takes over what has come and never waits; everything may be read in between. KV events are listened to from the
start while there are few servers, else from the moment somebody opens one: each costs a thread and its traffic.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from kvtop.attach.exposition import Reading
from kvtop.attach.fleet_recorder import FleetRecorder
from kvtop.attach.kv_hearing import Heard
from kvtop.attach.kv_listener import KvListener
from kvtop.attach.kv_sources import KvSource, given_sources
from kvtop.attach.kv_watch import KvWatch
from kvtop.attach.scraper import TIMEOUT_SECONDS, Scraper
from kvtop.attach.server import Scrape, ServerWatch
from kvtop.attach.tables_probe import TablesProbe
from kvtop.attach.targets import Target
from kvtop.engine.events import EngineInfo

LISTEN_FROM_START = 16
"""Up to so many servers."""

Depth = Literal["metrics only", "logical residency", "true tables"]


@dataclass(frozen=True, slots=True)
class Place:
    """One rank of one server; ``rank`` is empty while the server has told of none."""

    server: int
    rank: str


class WatchedServer:
    """What is known of one server, at each depth."""

    def __init__(self, target: Target, interval_s: float) -> None:
        self.target = target
        self.metrics = ServerWatch(target, interval_s)
        self.events: KvWatch | None = None
        """None: nobody listens."""
        self.tables: Sequence[str] = ()
        """Where the exporter of each rank speaks."""

    def depth(self, rank: str) -> Depth:
        """The deepest that this rank can be seen at now."""
        number = int(rank or 0) if (rank or "0").isdecimal() else -1
        if 0 <= number < len(self.tables):
            return "true tables"
        listeners = self.events.listeners if self.events is not None else ()
        if any(listener.source.rank == number for listener in listeners):
            return "logical residency"
        return "metrics only"

    def notes(self) -> list[str]:
        """What somebody who looks at the events must know; empty where nobody listens to any."""
        if self.events is None or not self.events.listeners:
            return []
        return self.events.notes(self.metrics)


def foreign(info: EngineInfo, reading: Reading) -> str:
    """Why true tables cannot be those of the server whose metrics these are; empty where they may be.

    Metrics count vLLM's placeholder among the blocks, those of an engine of ours too, which has none; tables don't.
    """
    blocks, size = reading.usable_blocks, reading.block_size
    if blocks and blocks != info.num_blocks:
        return f"they are of {info.num_blocks:,} blocks, this server has {blocks:,.0f}"
    if size and size != info.block_size:
        return f"their blocks are of {info.block_size:,} tokens, this server's of {size:,.0f}"
    return ""


class Fleet:
    """``start``, then ``poll`` from one thread, then ``close``."""

    def __init__(
        self,
        targets: Sequence[Target],
        interval_s: float = 1.0,
        timeout_s: float = TIMEOUT_SECONDS,
        events: bool = True,
        tables: bool = True,
        clock: Callable[[], float] = time.monotonic,
        recorder: FleetRecorder | None = None,
    ) -> None:
        self.recorder = recorder
        """Hears all that comes; None: nothing is recorded."""
        self.servers = [WatchedServer(target, interval_s) for target in targets]
        self._scraper = Scraper([server.metrics for server in self.servers], timeout_s, clock, self._note_page)
        self._probe = TablesProbe(targets) if tables else None
        self._wants_events = events
        self._clock = clock

    @property
    def watches(self) -> list[ServerWatch]:
        return [server.metrics for server in self.servers]

    def now_s(self) -> float:
        """The time that ages and rates are reckoned by."""
        return self._clock()

    def places(self) -> list[Place]:
        """A place a row of ``fleet_rows``, in the same order."""
        return [
            Place(number, rank) for number, server in enumerate(self.servers) for rank in server.metrics.ranks or ("",)
        ]

    @property
    def has_looked_for_tables(self) -> bool:
        """Every server was asked, or tried, once."""
        return self._probe is None or self._probe.has_looked

    def start(self) -> None:
        self._scraper.start()
        if self._probe is not None:
            self._probe.start()
        if len(self.servers) <= LISTEN_FROM_START:
            for server in self.servers:
                self.listen(server)

    def listen(self, server: WatchedServer) -> None:
        """Listen to a server's KV events, if it publishes any and nobody does yet."""
        if self._wants_events and server.events is None:
            server.events = KvWatch(
                server.target,
                given_sources(server.target),
                self._clock,
                lambda source: self._listener(server.target, source),
            )
            server.events.start()

    def _note_page(self, scrape: Scrape) -> None:
        if self.recorder is not None:
            self.recorder.page(scrape)

    def _listener(self, target: Target, source: KvSource) -> KvListener:
        def note(source: KvSource, heard: Heard) -> None:
            if self.recorder is not None:
                self.recorder.event(target, source, heard)

        if self.recorder is not None:
            self.recorder.publisher(target, source)
        return KvListener(source, self._clock, note)

    def poll(self) -> int:
        """Take over what has come; returns how many scrapes and batches of events there were."""
        taken = self._scraper.poll()
        for server in self.servers:
            if self._probe is not None:
                server.tables = self._probe.endpoints.get(server.target.base, ())
            if server.events is not None:
                server.events.follow(server.metrics)
                taken += server.events.poll()
        return taken

    def reject_tables(self, server: WatchedServer) -> None:
        """What was found for a server turned out to be somebody else's."""
        if self._probe is not None:
            self._probe.reject(server.target)
        server.tables = ()

    def close(self) -> None:
        """Stop asking and listening; returns soon, whatever the servers do."""
        watched = [server.events for server in self.servers if server.events is not None]
        for events in watched:
            events.stop()
        self._scraper.close()
        if self._probe is not None:
            self._probe.close()
        for events in watched:
            events.close()
        if self.recorder is not None:
            self.recorder.close()
