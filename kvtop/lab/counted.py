"""Reservations without places: free slots are counted one by one, wherever they lie.

The published experiment places nothing: what is reserved fits if as many slots are free. A KvManager of this kind hands
out a number instead of blocks, so no table and no hole exists, and a reservation of 8,192 slots costs as much as one of
one. Only for reservations: these never grow, share, copy or swap.
"""

from __future__ import annotations

from kvtop.engine.blocks import BlockPool
from kvtop.engine.config import SchedulerConfig
from kvtop.engine.events import Counters
from kvtop.engine.journal import Journal
from kvtop.engine.kv_manager import KvManager
from kvtop.engine.sequences import Sequence


class CountedPool(BlockPool):
    """A pool of ``num_blocks`` slots that are alike; ``taken`` of them are held."""

    def __init__(self, num_blocks: int) -> None:
        super().__init__(0, 1)
        self.num_blocks = num_blocks
        self.taken = 0

    @property
    def num_free(self) -> int:
        return self.num_blocks - self.taken

    @property
    def num_active(self) -> int:
        return self.taken

    @property
    def num_available(self) -> int:
        return self.num_blocks - self.taken


class CountedKv(KvManager):
    """A KvManager whose sequences hold numbers of slots; their tables stay empty."""

    pool: CountedPool

    def __init__(self, config: SchedulerConfig, journal: Journal, counters: Counters) -> None:
        super().__init__(config, journal, counters, CountedPool(config.num_blocks))
        self._held: dict[int, int] = {}

    def slots_held(self, sequence: Sequence) -> int:
        return self._held.get(sequence.seq, 0)

    def can_take(self, blocks: int) -> bool:
        return blocks <= self.pool.num_free

    def blocks_needed(self, sequence: Sequence, tokens: int) -> int:
        return 0 if sequence.seq in self._held else self.policy.blocks_to_hold(sequence, tokens)

    def grow(self, sequence: Sequence, tokens: int, cause: int, shortage: int = 0) -> None:
        slots = self.blocks_needed(sequence, tokens)
        if slots:
            self._held[sequence.seq] = slots
            self.pool.taken += slots

    def release(self, sequence: Sequence, cause: int) -> int:
        slots = self._held.pop(sequence.seq, 0)
        self.pool.taken -= slots
        return slots
