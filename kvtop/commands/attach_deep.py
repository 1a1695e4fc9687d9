"""What a look without a screen tells beyond metrics: how deep each rank is seen, its KV events, its true tables.

Exporters that were found are subscribed to for as long as the look lasts. Nothing waits longer than DEEP_SECONDS for a
server that says nothing.
"""

from __future__ import annotations

import time
from typing import Any

from kvtop.attach.fleet import Fleet, Place, WatchedServer, foreign
from kvtop.attach.replayed_fleet import ReplayedFleet
from kvtop.engine.control import BatchMessage, TakeSnapshot
from kvtop.sources.exported import ExportedSource
from kvtop.sources.source import ViewMessage
from kvtop.view.clean import clean_line
from kvtop.view.findings import FindingsLog
from kvtop.view.json_frame import frame_as_json
from kvtop.view.pool_view import PoolView

DEEP_SECONDS = 3.0


class _Subscribed:
    """One rank's true tables, and what stands of them."""

    def __init__(self, endpoint: str) -> None:
        self.source = ExportedSource(endpoint)
        self.view = PoolView()
        self.findings = FindingsLog()
        self.is_foreign = False
        """They turned out to be another server's."""
        self._asked = False
        self.source.start()

    def close(self) -> None:
        self.source.close()
        self.is_foreign = True
        self.view = PoolView()

    def poll(self) -> None:
        for message in self.source.poll() if not self.is_foreign else ():
            if isinstance(message, BatchMessage):
                self.view.apply(message.batch)
            elif isinstance(message, ViewMessage):
                self.view = message.view
        missing = self.view.incomplete_since is not None
        if missing and not self._asked:
            self.source.send(TakeSnapshot())
        self._asked = missing
        if self.view.info is not None:
            self.findings.observe(self.view)


class DeepLook:
    """``poll`` often; ``is_settled`` once there is no more to wait for; ``of`` tells of one rank."""

    def __init__(self, fleet: Fleet | ReplayedFleet) -> None:
        self._fleet = fleet
        self._tables: dict[Place, _Subscribed] = {}
        self._began_s = time.monotonic()

    def poll(self) -> None:
        for place in self._fleet.places():
            server = self._fleet.servers[place.server]
            if place.rank and place not in self._tables and server.depth(place.rank) == "true tables":
                self._tables[place] = _Subscribed(server.tables[int(place.rank)])
        for place, subscribed in self._tables.items():
            subscribed.poll()
            last = self._fleet.servers[place.server].metrics.ranks[place.rank].last
            if subscribed.view.info is not None and last is not None and foreign(subscribed.view.info, last):
                self._fleet.reject_tables(self._fleet.servers[place.server])
                subscribed.close()

    def is_settled(self) -> bool:
        if time.monotonic() - self._began_s >= DEEP_SECONDS:
            return True
        events = [server.events for server in self._fleet.servers if server.events is not None]
        listeners = [listener for watch in events for listener in watch.listeners]
        return (
            self._fleet.has_looked_for_tables
            and all(watch.has_asked for watch in events)
            and all(listener.stream.received for listener in listeners)
            and all(it.is_foreign or it.view.info is not None for it in self._tables.values())
        )

    def of(self, place: Place) -> dict[str, Any]:
        """What JSON says of one rank beside its metrics."""
        server = self._fleet.servers[place.server]
        subscribed = self._tables.get(place)
        return {
            "depth": server.depth(place.rank),
            "kv_events": _events_as_json(server, place.rank),
            "tables": _tables_as_json(subscribed) if subscribed is not None else None,
        }

    def words(self, place: Place) -> list[str]:
        """The same for people: a line each, of what was heard of one rank."""
        server, subscribed = self._fleet.servers[place.server], self._tables.get(place)
        lines = []
        events = _events_as_json(server, place.rank)
        if events is not None and events["received"]:
            bounds = f"{events['at_least']:,} to {events['at_most']:,}"
            lines.append(f"logical residency: {bounds} blocks hold full contents, {events['received']:,} messages")
        view = subscribed.view if subscribed is not None else None
        if view is not None and view.info is not None:
            blocks = view.blocks
            held = f"{blocks.active:,} held, {blocks.cached:,} cached, {blocks.free:,} free of {blocks.num_blocks:,}"
            thrown = f"{view.counters.preemptions:,} preemptions since the server started"
            lines.append(f"true tables: blocks {held}; {len(view.with_status('running')):,} running; {thrown}")
        return lines

    def close(self) -> None:
        for subscribed in self._tables.values():
            subscribed.source.close()


def _events_as_json(server: WatchedServer, rank: str) -> dict[str, Any] | None:
    """What a rank's KV events tell; None where it is not listened to."""
    if server.events is None or not rank.isdecimal():
        return None
    listener = next((found for found in server.events.listeners if found.source.rank == int(rank)), None)
    if listener is None:
        return None
    residency, stream = server.events.residency, listener.stream
    return {
        "received": stream.received + stream.refilled,
        "incomplete_since": stream.incomplete_since,
        "lost": stream.lost,
        "restarts": stream.restarts,
        "at_least": residency.at_least(int(rank)) if stream.received else None,
        "at_most": residency.at_most(int(rank)) if stream.received else None,
        "tiers": [
            {
                "medium": clean_line(tier.medium, 60),
                "group": tier.group,
                "at_least": view.at_least,
                "at_most": view.at_most,
                "stored": view.stored,
                "removed": view.removed,
            }
            for tier, view in sorted(residency.tiers.items())
            if tier.rank == int(rank)
        ],
        "notes": server.notes(),
    }


def _tables_as_json(subscribed: _Subscribed) -> dict[str, Any] | None:
    view = subscribed.view
    if view.info is None:
        return None
    return frame_as_json(view, view.wall_s, "watched", subscribed.findings.renew(view))
