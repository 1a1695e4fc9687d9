"""How long blocks live: from the moment one is handed out to its eviction from the prefix cache, and how long it lay
idle before that. Times are those of batches, in seconds of the engine's monotonic clock; nothing is sampled."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from kvtop.engine.events import Allocated, Batch, Copied, Evicted, Freed, Hit, Run, Shared


class BlockAges:
    """``take`` every batch in order; one entry a block."""

    def __init__(self, num_blocks: int) -> None:
        self._born_s = array("d", bytes(8 * num_blocks))
        """0: not known, it was handed out before watching began."""
        self._used_s = array("d", bytes(8 * num_blocks))
        """When it was last handed out, shared, or let go."""

    def take(self, batch: Batch) -> Iterator[tuple[float, float]]:
        """Of every block that a batch tells was evicted: how long it lived, and lay idle at the end."""
        now_s = batch.monotonic_s
        for event in batch.events:
            match event:
                case Allocated():
                    self._mark(event.runs, now_s, self._born_s, self._used_s)
                case Copied():
                    self._mark([(event.dst, 1)], now_s, self._born_s, self._used_s)
                case Hit() | Shared():
                    self._mark(event.runs, now_s, self._used_s)
                case Freed() if event.space == "pool":
                    self._mark(event.runs, now_s, self._used_s)
                case Evicted():
                    for first, count in event.runs:
                        for block in range(first, first + count):
                            if self._born_s[block]:
                                yield now_s - self._born_s[block], now_s - self._used_s[block]

    def _mark(self, runs: list[Run], now_s: float, *columns: array[float]) -> None:
        for first, count in runs:
            for column in columns:
                column[first : first + count] = array("d", [now_s]) * count
