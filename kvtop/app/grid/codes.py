"""What each cell is to show, as integers: a pool's arrays in, one code a cell out.

A code packs state, fill, ref count, three marks and the owner's slot (or, in the other modes, a tone) into one
integer, so a frame is compared, cut into runs and cached by plain integer equality. NumPy only; no colours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvtop.app.grid.shape import Shape, Zoom
from kvtop.app.palette import ACTIVE, CACHED, FULL, Cell
from kvtop.view.blocks_view import BlocksView
from kvtop.view.cells import fill_levels
from kvtop.view.owner_slots import OwnerSlots

Codes = npt.NDArray[np.int64]

_FILL, _REFS, _CHANGED, _DIMMED, _CURSOR, _SLOT, _LOGICAL = 2, 5, 9, 10, 11, 12, 32
_SLOT_MASK = (1 << _LOGICAL - _SLOT) - 1
MAX_REFS = 10
"""Ref counts from here on look the same."""
NOTHING = -1
"""The code of a place in the grid where no block is."""


def cell_of(code: int) -> Cell:
    """What a code says, for the palette."""
    return Cell(
        state=code & 3,
        slot=(code >> _SLOT & _SLOT_MASK) - 1,
        fill=code >> _FILL & 7,
        shared=refs_of(code) > 1,
        changed=bool(code >> _CHANGED & 1),
        dimmed=bool(code >> _DIMMED & 1),
        cursor=bool(code >> _CURSOR & 1),
    )


def refs_of(code: int) -> int:
    """The ref count a code shows, at most MAX_REFS."""
    return code >> _REFS & 15


def logical_of(code: int) -> int | None:
    """The logical index that stands in the cell, when the selected sequence's block table is shown."""
    return (code >> _LOGICAL) - 1 if code >> _LOGICAL > 0 else None


@dataclass(frozen=True, slots=True)
class Marks:
    """What is laid over the pool's state."""

    cursor: int | None = None
    """The block under the cursor."""
    lit: npt.NDArray[np.int64] | None = None
    """Blocks of the selection, in table order; all others are dimmed."""
    numbered: bool = False
    """Blocks of the selection show their logical index."""
    changed_since: int = 1 << 62
    """Blocks that changed hands in this step or later are marked."""


Which = slice | npt.NDArray[np.int64]
ALL = slice(None)


def block_codes(blocks: BlocksView, slots: OwnerSlots, block_size: int, which: Which = ALL) -> Codes:
    """int64[n]: one code for each block of ``which``, coloured by owner."""
    refs, hashes = blocks.ref_counts[which].astype(np.int64), blocks.hashes[which]
    state = np.where(refs > 0, ACTIVE, np.where(hashes != 0, CACHED, 0)).astype(np.int64)
    fill = np.where(refs > 0, fill_levels(blocks.fills[which], block_size), FULL)
    owner = np.where(state != 0, slots.slots_of(blocks.holders[which]).astype(np.int64) + 1, 0)
    return state | fill << _FILL | np.minimum(refs, MAX_REFS) << _REFS | owner << _SLOT


def tone_codes(blocks: BlocksView, tones: Codes) -> Codes:
    """int64[num_blocks]: one code a block that carries a tone where others carry their owner."""
    state = np.where(blocks.ref_counts > 0, ACTIVE, np.where(blocks.hashes != 0, CACHED, 0)).astype(np.int64)
    refs = np.minimum(blocks.ref_counts, MAX_REFS).astype(np.int64)
    return state | FULL << _FILL | refs << _REFS | (tones + 1) << _SLOT


def mark(codes: Codes, which: Codes, changed: npt.NDArray[np.bool_], marks: Marks) -> None:
    """Lay marks over ``codes`` of the blocks ``which``, in place; ``changed`` says for each whether it is to flash."""
    codes |= changed.astype(np.int64) << _CHANGED
    if marks.lit is not None:
        codes |= (~np.isin(which, marks.lit)).astype(np.int64) << _DIMMED
        if marks.numbered:
            place = np.zeros(int(which.max(initial=0)) + 1, np.int64)
            known = marks.lit < len(place)
            place[marks.lit[known]] = np.arange(1, len(marks.lit) + 1)[known]
            codes |= place[which] << _LOGICAL
    if marks.cursor is not None:
        codes |= (which == marks.cursor).astype(np.int64) << _CURSOR


def group_codes(groups: Codes) -> Codes:
    """One code for each row of ``groups`` (int64[cells, blocks a cell]): the slot that most held blocks have, the held
    share as fill, any mark of any.

    A group without a held block shows its cached ones; one with neither is free.
    """
    cells, per_cell = groups.shape
    if not cells:
        return np.zeros(0, np.int64)
    state = groups & 3
    top = state.max(axis=1)
    counted = state == top[:, None]
    slot = np.where(counted, groups >> _SLOT & _SLOT_MASK, 0)
    # The slot of most blocks: count (cell, slot) pairs, leaving out slot 0, "nobody".
    slots = int(slot.max()) + 1
    pairs = (np.arange(cells, dtype=np.int64)[:, None] * slots + slot).ravel()
    tally = np.bincount(pairs, minlength=cells * slots).reshape(cells, slots)
    tally[:, 0] = 0
    best = tally.argmax(axis=1)
    fill = np.where(top == ACTIVE, counted.sum(axis=1) * FULL // per_cell, FULL)
    any_mark = np.bitwise_or.reduce(groups, axis=1) & (1 << _CHANGED | 1 << _CURSOR)
    all_dimmed = np.bitwise_and.reduce(groups, axis=1) & (1 << _DIMMED)
    return top | fill << _FILL | np.where(top > 0, best, 0) << _SLOT | any_mark | all_dimmed


def rows_of(codes: Codes, shape: Shape, first_row: int, num_rows: int) -> Codes:
    """int64[num_rows, columns]: some rows of ``codes`` (one a cell), NOTHING after the end. At HALF two codes make a
    cell, ``upper << 32 | lower``."""
    lines = 2 if shape.zoom == Zoom.HALF else 1
    per_row = shape.columns * lines
    wanted = codes[first_row * per_row : (first_row + num_rows) * per_row]
    padded = np.full(num_rows * per_row, NOTHING, np.int64)
    padded[: len(wanted)] = wanted
    if lines == 1:
        return padded.reshape(num_rows, shape.columns)
    pairs = padded.reshape(num_rows, 2, shape.columns)
    upper, lower = pairs[:, 0], pairs[:, 1]
    # A missing half is NOTHING, all ones in 32 bits; a row that is missing altogether stays NOTHING.
    both = (upper & 0x7FFFFFFF) << 32 | (lower & 0xFFFFFFFF)
    return np.where(upper == NOTHING, NOTHING, both)
