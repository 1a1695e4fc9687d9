"""What a lesson points at, on this screen: the panel that gets a marked frame, the blocks that are lit in the grid."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvtop.view.pool_view import PoolView

WORDS = {
    "free": "the free blocks of the pool",
    "cached": "the cached blocks of the pool: held by nobody, kept",
    "shared": "the shared blocks of the pool",
    "decision": "the decision path",
    "log": "the events",
    "pressure": "the pressure chart",
    "sequences": "the sequence table",
    "headline": "the two top lines",
}
"""Mark → what it is called."""
_IN_THE_GRID = ("free", "cached", "shared", "blocks")


def words_for(watch: str) -> str:
    """What to watch, in words."""
    kind, _, request_id = watch.partition(" ")
    return f"the blocks of {request_id}" if kind == "blocks" else WORDS[kind]


def panel_for(watch: str) -> str:
    """The panel a mark is in; empty without one."""
    kind = watch.partition(" ")[0]
    return "grid" if kind in _IN_THE_GRID else kind


def blocks_for(watch: str, view: PoolView) -> npt.NDArray[np.int64] | None:
    """int64: ids of the marked blocks; None when there are none."""
    blocks = view.blocks
    kind, _, request_id = watch.partition(" ")
    if kind == "blocks":
        tables = [row.table for row in view.sequences.values() if row.request_id == request_id]
        marked = np.unique(np.array([block for table in tables for block in table], np.int64))
    elif kind == "free":
        marked = np.flatnonzero((blocks.ref_counts == 0) & (blocks.hashes == 0))
    elif kind == "cached":
        marked = np.flatnonzero((blocks.ref_counts == 0) & (blocks.hashes != 0))
    elif kind == "shared":
        marked = np.flatnonzero(blocks.ref_counts > 1)
    else:
        return None
    return marked if marked.size else None
