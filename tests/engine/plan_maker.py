"""Plans made by hand: sequences in scattered blocks, computed in any pieces, without a scheduler."""

from __future__ import annotations

import random
from typing import Any

from kvtop.engine.plan import Scheduled, StepPlan, Transfer
from kvtop.engine.requests import Request
from kvtop.engine.sequences import Sequence
from kvtop.engine.tables import BlockTable, blocks_for


class PlanMaker:
    """Hands out the blocks of a pool in a shuffled order, and counts steps."""

    def __init__(self, num_blocks: int, block_size: int, seed: int = 0) -> None:
        self.block_size = block_size
        self.free = list(range(num_blocks))
        random.Random(seed).shuffle(self.free)
        self.step = 0
        self._next_seq = 1

    def sequence(self, tokens: list[int], prompt_len: int | None = None, index: int = 0, **request: Any) -> Sequence:
        """A sequence that holds ``tokens`` and no KV yet. ``request`` are fields of its request."""
        seq = self._next_seq
        self._next_seq += 1
        length = len(tokens) if prompt_len is None else prompt_len
        made = Request(**{"id": f"request-{seq}", "prompt_token_ids": tokens[:length], **request})
        table, swap_table = BlockTable(self.block_size), BlockTable(self.block_size)
        return Sequence(seq, made, index, list(tokens), length, table, swap_table)

    def schedule(self, sequence: Sequence, count: int | None = None, draws: int = 0, candidates: int = 0) -> Scheduled:
        """Compute the next ``count`` tokens (all that are left, by default), in blocks it takes now."""
        count = sequence.to_compute if count is None else count
        start = sequence.computed
        while len(sequence.table) < blocks_for(start + count, self.block_size):
            sequence.table.block_ids.append(self.free.pop())
        sequence.computed += count
        return Scheduled(sequence, start, count, draws, candidates)

    def plan(self, *scheduled: Scheduled, transfers: list[Transfer] | None = None) -> StepPlan:
        self.step += 1
        return StepPlan(self.step, list(scheduled), transfers or [])
