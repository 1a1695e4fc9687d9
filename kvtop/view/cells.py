"""The pool as cells, where something else than the screen's grid draws it: one block a cell, or several.

A cell of several blocks shows the fullest state among them (active before cached before free), and the owner of most
blocks in that state. NumPy in, NumPy out; colours and glyphs are the drawer's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kvtop.view.owner_slots import NO_SLOT

if TYPE_CHECKING:
    from kvtop.view.pool_view import PoolView

FREE, CACHED, ACTIVE = range(3)
FULL = 7


@dataclass(frozen=True, slots=True)
class Cells:
    """All arrays have shape [cells]."""

    per_cell: int
    states: npt.NDArray[np.uint8]
    """FREE, CACHED or ACTIVE."""
    slots: npt.NDArray[np.int16]
    """The owner's slot (see OwnerSlots); NO_SLOT where nobody is known."""
    fills: npt.NDArray[np.uint8]
    """Of one block its level, see ``fill_levels``; of several, the share of them in the cell's state, 0 to FULL."""
    shared: npt.NDArray[np.bool_]
    """A block in it is held by more than one table."""


def cells_of(view: PoolView, per_cell: int = 1) -> Cells:
    """The pool in cells of ``per_cell`` consecutive blocks; the last one may have fewer."""
    blocks = view.blocks
    held = blocks.ref_counts > 0
    states = np.where(held, ACTIVE, np.where(blocks.hashes != 0, CACHED, FREE)).astype(np.uint8)
    slots = np.where(states == FREE, NO_SLOT, view.slots.slots_of(blocks.holders)).astype(np.int16)
    shared = blocks.ref_counts > 1
    if per_cell > 1:
        return _grouped(_rows(states, per_cell, FREE), _rows(slots, per_cell, NO_SLOT), _rows(shared, per_cell, False))
    fills = np.where(held, fill_levels(blocks.fills, view.block_size), FULL).astype(np.uint8)
    return Cells(1, states, slots, fills, shared)


def fill_levels(fills: npt.NDArray[np.integer], block_size: int) -> npt.NDArray[np.int64]:
    """int64[n]: filled slots of ``block_size`` as a level: 0 none (a reserved block), 1 to 6 a sixth each, FULL all."""
    return np.where(fills > 0, 1 + fills.astype(np.int64) * (FULL - 1) // block_size, 0)


def _rows(values: npt.NDArray, per_cell: int, padding: int) -> npt.NDArray:
    """[cells, per_cell]."""
    missing = -len(values) % per_cell
    return np.pad(values, (0, missing), constant_values=padding).reshape(-1, per_cell)


def _grouped(states: npt.NDArray[np.uint8], slots: npt.NDArray[np.int16], shared: npt.NDArray[np.bool_]) -> Cells:
    top = states.max(axis=1, initial=FREE)
    counted = states == top[:, None]
    named = np.where(counted, slots + 1, 0).astype(np.int64)  # 0: nobody
    width = int(named.max(initial=0)) + 1
    cells = np.arange(len(named))[:, None]
    tally = np.bincount((cells * width + named).ravel(), minlength=len(named) * width).reshape(len(named), width)
    tally[:, 0] = 0
    owners = np.where(tally.any(axis=1), tally.argmax(axis=1) - 1, NO_SLOT)
    fills = np.where(top == ACTIVE, counted.sum(axis=1) * FULL // states.shape[1], FULL)
    return Cells(states.shape[1], top, owners.astype(np.int16), fills.astype(np.uint8), np.asarray(shared.any(axis=1)))
