"""The journal: where events get their ids, and wait until a batch takes them away."""

from __future__ import annotations

from typing import Any

from kvtop.engine.events import AnyEvent, Event


class Journal:
    """Event ids rise by one from 1. ``add`` returns the id so that it can be named as a cause."""

    def __init__(self) -> None:
        self.last_id = 0
        self._events: list[AnyEvent] = []

    def add(self, event_type: type[Event], cause: int, **fields: Any) -> int:
        self.last_id += 1
        self._events.append(event_type(id=self.last_id, cause=cause, **fields))  # type: ignore[arg-type]
        return self.last_id

    def append(self, event: AnyEvent) -> None:
        """Take an event that was made outside, with the next id."""
        assert event.id == self.last_id + 1
        self.last_id = event.id
        self._events.append(event)

    def retract(self, event_id: int) -> None:
        """Take back the event that was added last."""
        assert event_id == self.last_id == self._events[-1].id
        self._events.pop()
        self.last_id -= 1

    @property
    def empty(self) -> bool:
        return not self._events

    def drain(self) -> list[AnyEvent]:
        """All events since the last call, in order."""
        events, self._events = self._events, []
        return events
