"""Requests that are known but have not arrived yet, by the moment (a time or a step) at which they will."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from kvtop.engine.requests import Request


@dataclass(slots=True, frozen=True)
class Arrival:
    """A tokenized request; ``cause`` is the event that brought it."""

    request: Request
    prompt: list[int]
    cause: int


class ArrivalQueue:
    """A queue by due moment; arrivals of the same moment keep the order in which they were put."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Arrival]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_due(self) -> float:
        """When the next one arrives. The queue must not be empty."""
        return self._heap[0][0]

    def put(self, due: float, arrival: Arrival) -> None:
        self._count += 1
        heapq.heappush(self._heap, (due, self._count, arrival))

    def take_due(self, now: float) -> list[Arrival]:
        """Take out everything that is due by ``now``, in order."""
        due = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap)[2])
        return due

    def remove(self, request_id: str) -> bool:
        """Forget a request; False when it is not here."""
        kept = [entry for entry in self._heap if entry[2].request.id != request_id]
        found = len(kept) < len(self._heap)
        self._heap = kept
        heapq.heapify(self._heap)
        return found

    def request_ids(self) -> set[str]:
        return {entry[2].request.id for entry in self._heap}
