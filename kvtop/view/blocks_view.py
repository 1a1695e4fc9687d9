"""The mirror of one block pool: NumPy arrays, one entry a block, changed in place by a verb for each block event.

The one idea: the engine's two queues (free blocks first in first out, evictable blocks least recently used first)
need no queue here. A number that rises whenever a block is released, or evicted, orders both. An update touches only
the blocks its event names, so it costs microseconds whatever the size of the pool. It never asks the engine anything.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kvtop.engine.events import Run, from_runs

Index = slice | npt.NDArray[np.int64]

UNKNOWN_PARENT = (1 << 64) - 1
"""In place of a parent's hash: the block is in the prefix index, but what precedes it was never told."""


def index_of(runs: Sequence[Run]) -> Index:
    """What selects the blocks of ``runs``, in order: a slice where one run allows it, else int64[n]."""
    if len(runs) == 1:
        first, count = runs[0]
        return slice(first, first + count)
    return np.array(from_runs(runs), np.int64)


class BlocksView:
    """A block is active (``ref_counts`` > 0), cached (0 and ``hashes`` != 0) or free (0 and 0).

    All arrays have shape [num_blocks] and may be read at any time; only the verbs below write them.
    """

    __slots__ = (
        "active",
        "cached",
        "changed_step",
        "fills",
        "free",
        "hashes",
        "hits",
        "holders",
        "loads",
        "num_blocks",
        "owners",
        "parents",
        "ref_counts",
        "released_order",
        "releases",
        "written_step",
    )

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.ref_counts = np.zeros(num_blocks, np.int32)
        """Tables that hold the block."""
        self.hashes = np.zeros(num_blocks, np.uint64)
        """Content hash; 0: not in the prefix index."""
        self.parents = np.zeros(num_blocks, np.uint64)
        """Content hash of the block before it; 0 for a prompt's first block and where ``hashes`` is 0."""
        self.hits = np.zeros(num_blocks, np.int32)
        """How often a new prompt found it in the prefix index, since it entered it or watching began; that a preempted
        sequence finds its own blocks again counts for nothing."""
        self.owners = np.zeros(num_blocks, np.int64)
        """Sequence the block was last handed to (when free) or revived for (when cached); 0: nobody yet."""
        self.holders = np.zeros(num_blocks, np.int64)
        """Who to draw the block as: the owner while it holds the block, or if nobody does; else the holder with the
        smallest sequence number."""
        self.fills = np.zeros(num_blocks, np.int32)
        """Computed slots in the block."""
        self.changed_step = np.full(num_blocks, -1, np.int64)
        """Step in which the block last changed hands or state; -1: never seen."""
        self.written_step = np.full(num_blocks, -1, np.int64)
        """Step that last wrote KV into the block; -1: never seen."""
        self.released_order = np.arange(1, num_blocks + 1, dtype=np.int64)
        """Rises with every release: smaller is handed out (free) or evicted (cached) sooner. Negative: put in front."""
        self.releases = num_blocks
        """The largest order given so far."""
        self.loads = 0
        """Whole states taken over; what a reader derived from single changes is void when it rises."""
        self.active = 0
        self.cached = 0
        self.free = num_blocks

    # --- verbs, one an event -----------------------------------------------------------------------------------------

    def take(self, runs: Sequence[Run], seq: int, step: int) -> None:
        """Free blocks become ``seq``'s own, empty."""
        where = index_of(runs)
        self.ref_counts[where] = 1
        self.fills[where] = 0
        self.owners[where] = seq
        self.holders[where] = seq
        self.changed_step[where] = step
        count = sum(count for _, count in runs)
        self.free -= count
        self.active += count

    def hold(self, runs: Sequence[Run], seq: int, step: int) -> None:
        """``seq`` joins the holders of blocks that are cached or active."""
        blocks = np.array(from_runs(runs), np.int64)
        revived = blocks[self.ref_counts[blocks] == 0]
        self.ref_counts[blocks] += 1
        self.owners[revived] = seq
        owners, holders = self.owners[blocks], self.holders[blocks]
        heirs = np.where(holders == owners, owners, np.minimum(holders, seq))
        self.holders[blocks] = np.where(owners == seq, seq, heirs)
        self.changed_step[blocks] = step
        self.cached -= len(revived)
        self.active += len(revived)

    def release(self, runs: Sequence[Run], step: int) -> None:
        """A table lets go of these blocks, last one first."""
        blocks = np.array(from_runs(runs), np.int64)
        self.ref_counts[blocks] -= 1
        gone = blocks[self.ref_counts[blocks] == 0][::-1]
        self.released_order[gone] = np.arange(self.releases + 1, self.releases + 1 + len(gone))
        self.releases += len(gone)
        self.holders[gone] = self.owners[gone]
        to_free = gone[self.hashes[gone] == 0]
        self.fills[to_free] = 0
        self.changed_step[blocks] = step
        self.active -= len(gone)
        self.free += len(to_free)
        self.cached += len(gone) - len(to_free)

    def evict(self, runs: Sequence[Run], step: int) -> None:
        """Cached blocks leave the prefix index and join the tail of the free queue, in this order."""
        where = index_of(runs)
        count = sum(count for _, count in runs)
        self._unindex(where)
        self.fills[where] = 0
        self.released_order[where] = np.arange(self.releases + 1, self.releases + 1 + count)
        self.releases += count
        self.changed_step[where] = step
        self.cached -= count
        self.free += count

    def clear_cache(self, runs: Sequence[Run], step: int) -> None:
        """The prefix index is emptied: cached blocks (``runs``) become free, active ones lose their hash."""
        self.evict(runs, step)
        self._unindex(slice(None))

    def _unindex(self, where: Index) -> None:
        self.hashes[where] = 0
        self.parents[where] = 0
        self.hits[where] = 0

    def requeue(self, front: Sequence[Run], back: Sequence[Run], step: int) -> None:
        """Idle blocks take other places: ``front`` is handed out next, in this order, ``back`` last."""
        for runs, sign in ((front, -1), (back, 1)):
            blocks = np.array(from_runs(runs), np.int64)
            places = np.arange(self.releases + 1, self.releases + 1 + len(blocks))
            self.released_order[blocks] = places if sign > 0 else -places[::-1]
            self.releases += len(blocks)
            self.changed_step[blocks] = step

    def index(self, runs: Sequence[Run], hashes: Sequence[int], parent: int, step: int) -> None:
        """Full blocks enter the prefix index; each follows the one before it, the first follows ``parent``."""
        where = index_of(runs)
        self.hashes[where] = np.array(hashes, np.uint64)
        self.parents[where] = np.array([parent, *hashes[:-1]], np.uint64)
        self.hits[where] = 0
        self.changed_step[where] = step

    def hit(self, runs: Sequence[Run]) -> None:
        """A prompt found these blocks in the prefix index."""
        self.hits[index_of(runs)] += 1

    def write(self, blocks: list[int], fills: list[int], step: int) -> None:
        """KV was computed: ``fills[i]`` slots of ``blocks[i]`` are filled now."""
        self.fills[blocks] = fills
        self.written_step[blocks] = step

    def orphans(self, blocks: list[int], seq: int) -> list[int]:
        """Indices into ``blocks`` of those still drawn as ``seq`` though it let go of them and others hold them."""
        where = np.array(blocks, np.int64)
        return np.flatnonzero((self.ref_counts[where] > 0) & (self.holders[where] == seq)).tolist()

    # --- orders ------------------------------------------------------------------------------------------------------

    def idle_order(self) -> npt.NDArray[np.int64]:
        """int64[free + cached]: all blocks that nobody holds, as an engine with one queue for both hands them out."""
        return self._ordered(self.ref_counts == 0)

    def free_order(self) -> npt.NDArray[np.int64]:
        """int64[free]: free blocks, the one handed out next first."""
        return self._ordered((self.ref_counts == 0) & (self.hashes == 0))

    def cached_order(self) -> npt.NDArray[np.int64]:
        """int64[cached]: evictable blocks, the one evicted next first."""
        return self._ordered((self.ref_counts == 0) & (self.hashes != 0))

    def _ordered(self, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        blocks = np.flatnonzero(chosen)
        return blocks[np.argsort(self.released_order[blocks])]

    def load(
        self,
        ref_counts: npt.NDArray[np.int32],
        hashes: npt.NDArray[np.uint64],
        parents: npt.NDArray[np.uint64],
        owners: npt.NDArray[np.int64],
        fills: npt.NDArray[np.int32],
        order: npt.NDArray[np.int64],
        step: int,
    ) -> None:
        """Take over a whole state. ``order``: free, then cached blocks, or both as one queue has them. Blocks that
        differ from what was known count as changed in ``step``."""
        self.loads += 1
        differs = (self.ref_counts != ref_counts) | (self.hashes != hashes) | (self.owners != owners)
        self.changed_step[differs] = step
        self.written_step[self.fills != fills] = step
        self.ref_counts[:] = ref_counts
        self.hits[self.hashes != hashes] = 0
        self.hashes[:] = hashes
        self.parents[:] = parents
        self.owners[:] = owners
        self.holders[:] = owners
        self.fills[:] = fills
        self.released_order[order] = np.arange(self.releases + 1, self.releases + 1 + len(order))
        self.releases += len(order)
        self.active = int(np.count_nonzero(ref_counts))
        self.cached = int(np.count_nonzero((ref_counts == 0) & (hashes != 0)))
        self.free = self.num_blocks - self.active - self.cached
