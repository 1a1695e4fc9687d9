"""The codes of a whole pool, kept from frame to frame: only the blocks that changed are worked out again.

A pool of 100,000 blocks changes in a few hundred of them between two frames, and the view's arrays say in which
(``changed_step``, ``written_step``). When something else moved (another view, a new owner of a slot, a new selection)
everything is worked out afresh; the result is the same either way.
"""

from __future__ import annotations

import numpy as np

from kvtop.app.grid.codes import Codes, Marks, block_codes, group_codes, mark, tone_codes
from kvtop.app.grid.tones import Mode, tones
from kvtop.view.pool_view import PoolView


class PoolCodes:
    """``update`` is called once a frame."""

    def __init__(self) -> None:
        self._codes: Codes = np.zeros(0, np.int64)
        """One a block, and zeros up to a multiple of ``per_cell``."""
        self._cells: Codes = self._codes
        self._per_cell = 1
        self._mode: Mode = "owner"
        self._step = 0
        self._flashing: Codes = self._codes
        self._marks = Marks()
        self._seen: tuple[object, ...] = ()

    def update(self, view: PoolView, marks: Marks, per_cell: int, mode: Mode = "owner") -> Codes:
        """int64[cells]: the codes of all cells now, ``per_cell`` blocks each. Valid until the next call."""
        seen = (view, view.blocks.num_blocks, view.blocks.loads, view.slots.assignments, per_cell, mode, marks.numbered)
        self._mode = mode
        if mode != "owner" or seen != self._seen or view.step < self._step or not _same(marks.lit, self._marks.lit):
            self._start(view, marks, per_cell)
        else:
            self._go_on(view, marks)
        self._seen, self._step, self._marks = seen, view.step, marks
        return self._cells

    def _start(self, view: PoolView, marks: Marks, per_cell: int) -> None:
        num_blocks = view.blocks.num_blocks
        self._per_cell = per_cell
        self._codes = np.zeros(-(-num_blocks // per_cell) * per_cell, np.int64)
        self._put(view, np.arange(num_blocks), marks)
        self._cells = group_codes(self._codes.reshape(-1, per_cell)) if per_cell > 1 else self._codes

    def _go_on(self, view: PoolView, marks: Marks) -> None:
        blocks = view.blocks
        touched = (blocks.changed_step >= self._step) | (blocks.written_step >= self._step)
        touched[self._flashing] = True
        for cursor in (self._marks.cursor, marks.cursor):
            if cursor is not None:
                touched[cursor] = True
        which = np.flatnonzero(touched)
        self._put(view, which, marks)
        if self._per_cell > 1:
            cells = np.unique(which // self._per_cell)
            self._cells[cells] = group_codes(self._codes.reshape(-1, self._per_cell)[cells])

    def _put(self, view: PoolView, which: Codes, marks: Marks) -> None:
        if self._mode == "owner":
            codes = block_codes(view.blocks, view.slots, view.block_size, which)
        else:
            codes = tone_codes(view.blocks, tones(view, self._mode))
        changed = view.blocks.changed_step[which] >= marks.changed_since
        mark(codes, which, changed, marks)
        self._codes[which] = codes
        self._flashing = which[changed]


def _same(one: Codes | None, other: Codes | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))
