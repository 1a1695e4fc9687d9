"""The last events, for the log, the decision path and every "why": a bounded ring that can be read along causes.

Per-token news (Advanced, StepTimed) stays out of it: it would push everything else out within seconds.
"""

from __future__ import annotations

from collections import deque
from itertools import islice

import msgspec

from kvtop.engine import events as e
from kvtop.engine.events import AnyEvent

CAPACITY = 1_000
_ROUTINE = (e.Cached, e.Allocated, e.Freed, e.Evicted, e.Shortage, e.Requeued)


def is_routine(event: AnyEvent) -> bool:
    """It follows from others, happens all the time, or only says that the operator stepped on: left out unless all
    events are asked for."""
    return isinstance(event, _ROUTINE) or (isinstance(event, e.Commanded) and event.command == "step")


class LogEntry(msgspec.Struct, frozen=True):
    step: int
    wall_s: float
    event: AnyEvent


class EventLog:
    """``total`` counts every entry ever added; the ring holds the last CAPACITY of them."""

    def __init__(self, entries: list[LogEntry] | None = None, total: int = 0) -> None:
        self.entries: deque[LogEntry] = deque(entries or (), CAPACITY)
        self.total = total

    def add(self, step: int, wall_s: float, event: AnyEvent) -> None:
        self.entries.append(LogEntry(step, wall_s, event))
        self.total += 1

    def since(self, total: int) -> tuple[list[LogEntry], int]:
        """Entries added after ``total`` of them had been read, and how many of those are lost already."""
        wanted = max(0, self.total - total)
        held = min(wanted, len(self.entries))
        return list(islice(self.entries, len(self.entries) - held, None)), wanted - held

    def find(self, event_id: int) -> LogEntry | None:
        """The entry of an event; None when it is no longer held, never was, or ``event_id`` is 0."""
        if event_id:
            for entry in reversed(self.entries):
                if entry.event.id == event_id:
                    return entry
                if 0 < entry.event.id < event_id:
                    break
        return None

    def of_step(self, step: int) -> list[LogEntry]:
        """The entries of a step, in order, as far as they are held."""
        found: list[LogEntry] = []
        for entry in reversed(self.entries):
            if entry.step < step:
                break
            if entry.step == step:
                found.append(entry)
        return found[::-1]

    def causes(self, event: AnyEvent) -> list[LogEntry]:
        """The chain of causes of an event, nearest first, as far as it is held."""
        chain: list[LogEntry] = []
        found = self.find(event.cause)
        while found is not None:
            chain.append(found)
            found = self.find(found.event.cause)
        return chain
