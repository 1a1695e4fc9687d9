"""Codes say what the arrays say; groups say what most of their blocks are."""

from __future__ import annotations

import numpy as np

from kvtop.app.grid.codes import NOTHING, Codes, Marks, block_codes, cell_of, group_codes, mark, refs_of, rows_of
from kvtop.app.grid.pool_codes import PoolCodes
from kvtop.app.grid.shape import Shape, Zoom
from kvtop.app.palette import ACTIVE, CACHED, FREE, FULL, Cell
from kvtop.engine.control import BatchMessage
from kvtop.view.blocks_view import BlocksView
from kvtop.view.owner_slots import OwnerSlots
from kvtop.view.pool_view import PoolView
from tests.app.feed import story

NO_MARKS = Marks()


def pool() -> tuple[BlocksView, OwnerSlots]:
    """Blocks 0-3 held by sequence 5 (the last one a quarter full), 4-5 by 9 and shared, 6-7 cached, the rest free."""
    blocks, slots = BlocksView(12), OwnerSlots()
    slots.assign(5)
    slots.assign(9)
    blocks.take([(0, 4)], 5, step=1)
    blocks.take([(4, 2), (6, 2)], 9, step=2)
    blocks.write([0, 1, 2, 3, 4, 5, 6, 7], [16, 16, 16, 4, 16, 16, 16, 16], step=2)
    blocks.index([(4, 4)], [11, 12, 13, 14], parent=0, step=2)
    blocks.hold([(4, 2)], 5, step=3)
    blocks.release([(6, 2)], step=3)
    return blocks, slots


def codes_of(blocks: BlocksView, slots: OwnerSlots, marks: Marks = NO_MARKS) -> Codes:
    codes = block_codes(blocks, slots, 16)
    mark(codes, np.arange(blocks.num_blocks), blocks.changed_step >= marks.changed_since, marks)
    return codes


def test_a_code_says_state_owner_fill_and_sharing() -> None:
    cells = [cell_of(code) for code in codes_of(*pool()).tolist()]
    assert cells[0] == Cell(ACTIVE, 0)
    assert cells[3] == Cell(ACTIVE, 0, fill=1 + 6 // 4)
    assert cells[4] == Cell(ACTIVE, 1, shared=True)
    assert cells[6] == Cell(CACHED, 1)
    assert cells[8].state == FREE and cells[8].slot == -1


def test_a_code_counts_references_up_to_ten() -> None:
    blocks, slots = pool()
    blocks.ref_counts[:3] = (2, 9, 400)
    codes = codes_of(blocks, slots).tolist()
    assert [refs_of(code) for code in codes[:5]] == [2, 9, 10, 1, 2]


def test_marks_are_laid_over_the_state() -> None:
    marks = Marks(cursor=2, lit=np.array([0, 1]), changed_since=3)
    cells = [cell_of(code) for code in codes_of(*pool(), marks).tolist()]
    assert [i for i, cell in enumerate(cells) if cell.cursor] == [2]
    assert [i for i, cell in enumerate(cells) if not cell.dimmed] == [0, 1]
    assert [i for i, cell in enumerate(cells) if cell.changed] == [4, 5, 6, 7]


def test_a_group_shows_the_owner_of_most_held_blocks_and_how_many_are_held() -> None:
    groups = [cell_of(code) for code in group_codes(codes_of(*pool(), Marks(cursor=1)).reshape(-1, 6)).tolist()]
    assert groups[0] == Cell(ACTIVE, 0, fill=FULL, cursor=True)
    assert groups[1] == Cell(CACHED, 1)
    quarter = group_codes(codes_of(*pool()).reshape(-1, 12)).tolist()
    assert cell_of(quarter[0]).fill == FULL * 6 // 12


def test_a_group_is_dim_only_when_all_of_it_is() -> None:
    codes = group_codes(codes_of(*pool(), Marks(lit=np.array([5]))).reshape(-1, 4)).tolist()
    assert [cell_of(code).dimmed for code in codes] == [True, False, True]


def test_rows_after_the_end_hold_nothing() -> None:
    codes = codes_of(*pool())
    rows = rows_of(codes, Shape(Zoom.CELL, 12, 5, 1, 0), 1, 3)
    assert rows.shape == (3, 5)
    assert rows[0].tolist() == codes[5:10].tolist()
    assert rows[1].tolist() == [*codes[10:].tolist(), NOTHING, NOTHING, NOTHING]
    assert (rows[2] == NOTHING).all()


def test_half_cells_pair_a_row_with_the_one_below() -> None:
    codes = codes_of(*pool())
    rows = rows_of(codes, Shape(Zoom.HALF, 12, 4, 1, 0), 0, 2)
    assert (rows[0] >> 32).tolist() == codes[:4].tolist()
    assert (rows[0] & 0xFFFFFFFF).tolist() == codes[4:8].tolist()
    assert (rows[1] & 0xFFFFFFFF).tolist() == [0xFFFFFFFF] * 4


def test_codes_kept_from_frame_to_frame_are_those_worked_out_afresh() -> None:
    source = story(96, 14)
    source.run(1)
    view = PoolView()
    kept = {1: PoolCodes(), 5: PoolCodes()}
    for frame in range(60):
        source.run(1 + frame % 4)
        for message in source.poll():
            if isinstance(message, BatchMessage):
                view.apply(message.batch)
        lit = np.array(next(iter(view.sequences.values())).table) if frame % 10 > 5 else None
        marks = Marks(cursor=frame % 96, lit=lit, changed_since=view.step)
        for per_cell, codes in kept.items():
            assert (codes.update(view, marks, per_cell) == PoolCodes().update(view, marks, per_cell)).all(), frame
    assert view.counters.preemptions and view.counters.evicted_blocks
