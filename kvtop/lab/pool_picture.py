"""Where a pool's slots go, block by block, and the same gathered into cells of any size: what a lane of the lab draws.

Of a held block the first slots hold tokens, the next are reserved for tokens that will come, the rest will never be
filled; a free slot may be out of reach of the one who waits. The lab knows how long answers will be, so it can tell
reserved from internal at once; a policy only learns it when a request ends. NumPy only; no colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvtop.lab.holding import Holding

Counts = npt.NDArray[np.int64]

LIVE, RESERVED, INTERNAL, EXTERNAL, CACHED, FREE = range(6)
KINDS = 6
NO_BLOCKS: Counts = np.zeros(0, np.int64)
PACKED_GRAIN = 16
"""Slots a block of a picture whose sequences have no places."""


@dataclass(frozen=True, slots=True)
class PoolPicture:
    """Columns have an entry a block, in slots; the last block may have fewer slots than ``block_size``."""

    num_slots: int
    block_size: int
    live: Counts
    """Slots that hold a token."""
    reserved: Counts
    """Held for tokens that will come before the request ends."""
    held: Counts
    cached: Counts
    """Free to be taken, but kept for who has the same prefix."""
    stuck: bool
    """Whatever is free is of no use to the head of the queue: external fragmentation."""
    names: tuple[str, ...] = ()
    """Of the sequences that hold blocks."""
    tables: tuple[Counts, ...] = ()
    """Their block tables; none where there are no places."""

    def cells(self, slots_per_cell: int, num_slots: int | None = None) -> Counts:
        """int64[cells, KINDS]: how many slots of each cell are of which kind. ``num_slots`` makes the picture longer
        than its pool: cells behind the end are empty."""
        edges = np.arange(0, (num_slots or self.num_slots) + slots_per_cell, slots_per_cell)
        edges = np.minimum(edges, self.num_slots)
        live, reserved, held, cached = (
            self._within(column, edges) for column in (self.live, self.live + self.reserved, self.held, self.cached)
        )
        counts = np.zeros((len(edges) - 1, KINDS), np.int64)
        counts[:, LIVE] = live
        counts[:, RESERVED] = reserved - live
        counts[:, INTERNAL] = held - reserved
        counts[:, CACHED] = cached
        counts[:, EXTERNAL if self.stuck else FREE] = np.diff(edges) - held - cached
        return counts

    def holders(self) -> list[str]:
        """The name of each block's holder, "" for nobody."""
        names = [""] * len(self.held)
        for name, table in zip(self.names, self.tables, strict=True):
            for block in table.tolist():
                names[block] = name
        return names

    def totals(self) -> tuple[int, ...]:
        """Slots of the whole pool, by kind."""
        return tuple(self.cells(self.num_slots)[0].tolist())

    def _within(self, column: Counts, edges: Counts) -> Counts:
        """Of each block the first ``column`` slots count: how many lie between neighbouring edges."""
        before = np.concatenate(([0], np.cumsum(column)))
        block = np.minimum(edges // self.block_size, len(column) - 1)
        reached = before[block] + np.minimum(edges - block * self.block_size, column[block])
        return np.diff(reached)


def picture_of_tables(
    holdings: Sequence[Holding],
    tables: Sequence[Counts],
    num_blocks: int,
    block_size: int,
    *,
    reserving: bool,
    stuck: bool,
    cached: Counts,
) -> PoolPicture:
    """Every block where it lies. ``tables``: the holdings' block tables as arrays. ``reserving``: what is held and not
    filled was reserved ahead; else it is the tail of a last block, internal fragmentation, though it may be filled yet.
    ``cached``: block ids."""
    live = _first_slots(tables, [holding.tokens for holding in holdings], num_blocks, block_size)
    held, kept, reserved = (np.zeros(num_blocks, np.int64) for _ in range(3))
    held[np.concatenate([NO_BLOCKS, *tables])] = block_size
    kept[cached] = block_size
    if reserving:
        to_fill = _first_slots(tables, [holding.final_tokens for holding in holdings], num_blocks, block_size)
        reserved = np.maximum(to_fill - live, 0)
    names = tuple(holding.name for holding in holdings)
    return PoolPicture(num_blocks * block_size, block_size, live, reserved, held, kept, stuck, names, tuple(tables))


def _first_slots(tables: Sequence[Counts], counts: Sequence[int], num_blocks: int, block_size: int) -> Counts:
    """int64[num_blocks]: how many slots of each block are among the first ``count`` of its table."""
    slots = np.zeros(num_blocks, np.int64)
    pairs = list(zip(tables, counts, strict=True))
    slots[np.concatenate([NO_BLOCKS, *(table[: count // block_size] for table, count in pairs)])] = block_size
    cut = [
        (table[count // block_size], count % block_size) for table, count in pairs if count < block_size * len(table)
    ]
    if cut:
        blocks, filled = zip(*cut, strict=True)
        slots[list(blocks)] = filled
    return slots


def packed_picture(holdings: Sequence[Holding], num_slots: int) -> PoolPicture:
    """Sequences without places, side by side in the order of their admission."""
    held = np.array([holding.held_slots for holding in holdings], np.int64)
    tokens = np.minimum([holding.tokens for holding in holdings], held).astype(np.int64)
    final = np.clip([holding.final_tokens for holding in holdings], tokens, held).astype(np.int64)
    starts = np.cumsum(held) - held
    edges = np.append(np.arange(0, num_slots, PACKED_GRAIN), num_slots)
    live, to_fill, taken = (_covered(starts, lengths, edges) for lengths in (tokens, final, held))
    none = np.zeros(len(live), np.int64)
    return PoolPicture(num_slots, PACKED_GRAIN, live, to_fill - live, taken, none, stuck=False)


def _covered(starts: Counts, lengths: Counts, edges: Counts) -> Counts:
    """Slots between neighbouring edges that the intervals ``starts`` to ``starts + lengths`` cover."""
    if not len(starts):
        return np.zeros(len(edges) - 1, np.int64)
    places = np.stack((starts, starts + lengths), axis=1).ravel()
    after = np.cumsum(lengths)
    covered = np.stack((after - lengths, after), axis=1).ravel()
    return np.diff(np.interp(edges, places, covered)).round().astype(np.int64)
