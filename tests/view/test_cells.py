from __future__ import annotations

import numpy as np

from kvtop.view.cells import ACTIVE, CACHED, FREE, FULL, cells_of
from kvtop.view.owner_slots import NO_SLOT
from kvtop.view.pool_view import PoolView
from tests.sources.traffic import batches
from tests.view.watched_engine import WatchedEngine, request


def watched() -> PoolView:
    view = PoolView()
    for batch in batches(150):
        view.apply(batch)
    return view


def test_a_cell_a_block_tells_state_owner_and_sharing_of_each() -> None:
    view = watched()
    cells = cells_of(view)
    counts = [int((cells.states == state).sum()) for state in (FREE, CACHED, ACTIVE)]
    assert counts == [view.blocks.free, view.blocks.cached, view.blocks.active] and min(counts[1:]) > 0
    for sequence in view.sequences.values():
        for logical, block in enumerate(sequence.table):
            assert cells.states[block] == ACTIVE
            if view.blocks.ref_counts[block] == 1:
                assert cells.slots[block] == view.slots.slot_of(sequence.seq)
            if logical < len(sequence.table) - 1:
                assert cells.fills[block] == FULL
    assert (cells.shared == (view.blocks.ref_counts > 1)).all()


def test_a_free_block_has_no_owner_and_a_partial_one_shows_how_full_it_is() -> None:
    engine = WatchedEngine(num_blocks=4, block_size=8)
    engine.add(request("a", 12))
    engine.run()
    cells = cells_of(engine.view)
    (table,) = (sequence.table for sequence in engine.view.sequences.values())
    assert cells.fills[table].tolist() == [FULL, 1 + 6 * 4 // 8]
    free = [block for block in range(4) if block not in table]
    assert cells.slots[free].tolist() == [NO_SLOT, NO_SLOT]


def test_a_cell_of_several_blocks_shows_their_fullest_state_and_most_of_its_owners() -> None:
    view = watched()
    one = cells_of(view)
    for per_cell in (2, 5, 7):
        several = cells_of(view, per_cell)
        assert len(several.states) == -(-view.blocks.num_blocks // per_cell)
        for cell in range(len(several.states)):
            part = slice(cell * per_cell, (cell + 1) * per_cell)
            top = one.states[part].max()
            owners = one.slots[part][one.states[part] == top]
            known = owners[owners != NO_SLOT]
            assert several.states[cell] == top
            assert several.shared[cell] == one.shared[part].any()
            if top == FREE or not len(known):
                assert several.slots[cell] == NO_SLOT
            else:
                most = np.bincount(known)
                assert most[several.slots[cell]] == most.max()
