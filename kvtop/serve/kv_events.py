"""Batches of this engine → KV events as vLLM publishes them: which content entered the prefix index, and which left it.

A block that became full is a BlockStored, one that was evicted a BlockRemoved, an emptied index an AllBlocksCleared.
Contents are named by hash, so the hash of every indexed block is kept. Where a batch was lost, or another engine began,
all is said to be cleared, and what a snapshot then tells is stored again (without token ids, which it does not hold).
"""

from __future__ import annotations

from array import array

import msgspec

from kvtop.engine.events import Batch, CacheCleared, Cached, Evicted, Snapshot, from_runs

MEDIUM = "GPU"


class BlockStored(msgspec.Struct, tag=True, omit_defaults=True):
    """As vLLM 0.32 has it; fields of later kinds that this engine has nothing to say to are left out."""

    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None


class BlockRemoved(msgspec.Struct, tag=True, omit_defaults=True):
    block_hashes: list[int]
    medium: str | None


class AllBlocksCleared(msgspec.Struct, tag=True):
    pass


KvEvent = BlockStored | BlockRemoved | AllBlocksCleared


class KvEventBatch(msgspec.Struct, array_like=True):
    """``ts`` is Unix time in seconds."""

    ts: float
    events: list[KvEvent]
    data_parallel_rank: int = 0


class KvTranslator:
    """``take`` every batch in order."""

    def __init__(self) -> None:
        self._number = 0
        self._hashes = array("Q")
        """By block: the hash under which it is in the prefix index, else 0."""
        self._block_size = 0

    def take(self, batch: Batch) -> KvEventBatch | None:
        """What a batch tells, or None when it tells nothing of the prefix index."""
        follows = self._block_size > 0 and batch.number == self._number + 1
        self._number = batch.number
        if follows:
            events = self._translate(batch)
        elif batch.snapshot is not None:
            events = self._begin(batch.snapshot)
        else:
            self._block_size = 0  # nothing is certain until a snapshot comes
            return None
        return KvEventBatch(batch.wall_s, events) if events else None

    def _translate(self, batch: Batch) -> list[KvEvent]:
        events: list[KvEvent] = []
        for event in batch.events:
            match event:
                case Cached():
                    events.append(self._store(event))
                case Evicted():
                    events.append(BlockRemoved(self._remove(from_runs(event.runs)), MEDIUM))
                case CacheCleared():
                    self._hashes = array("Q", bytes(8 * len(self._hashes)))
                    events.append(AllBlocksCleared())
        return events

    def _store(self, event: Cached) -> BlockStored:
        for block, content in zip(from_runs(event.runs), event.hashes, strict=True):
            self._hashes[block] = content
        return BlockStored(event.hashes, event.parent or None, event.token_ids, self._block_size, None, MEDIUM, None)

    def _remove(self, blocks: list[int]) -> list[int]:
        hashes = [self._hashes[block] for block in blocks]
        for block in blocks:
            self._hashes[block] = 0
        return hashes

    def _begin(self, snapshot: Snapshot) -> list[KvEvent]:
        began_before = bool(self._hashes)
        self._block_size = snapshot.info.block_size
        self._hashes = array("Q", snapshot.hashes)
        parents = array("Q", snapshot.parents)
        events: list[KvEvent] = [AllBlocksCleared()] if began_before else []
        for block, content in enumerate(self._hashes):
            if content:
                parent = parents[block] if parents else 0
                events.append(BlockStored([content], parent or None, [], self._block_size, None, MEDIUM, None))
        return events
