"""The events of one observation, numbered as they are told."""

from __future__ import annotations

from kvtop.engine.events import AnyEvent


class OutOfStep(RuntimeError):
    """What was told and what is no longer fit: begin anew from the whole state. The message says what differs."""


class Teller:
    """``tell`` appends; ``next_id`` numbers."""

    def __init__(self) -> None:
        self.last_id = 0
        self.events: list[AnyEvent] = []

    def next_id(self) -> int:
        """The id of the next event."""
        self.last_id += 1
        return self.last_id

    def tell(self, *events: AnyEvent) -> None:
        self.events += events

    def take(self) -> list[AnyEvent]:
        """All that was told since the last time."""
        events, self.events = self.events, []
        return events
