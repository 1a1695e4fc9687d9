"""The block table of the selected sequence: logical → physical, as the attention kernel reads it.

The grid shows the same numbers in the blocks themselves, so that table and pool can be read together.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvtop.app.lines import Line, Span
from kvtop.app.palette import ACTIVE, Cell
from kvtop.app.widgets.painted import Framed
from kvtop.view.cells import fill_levels
from kvtop.view.sequence_view import SequenceView
from kvtop.view.words import count, who

ENTRY = 15


class TablePanel(Framed):
    def _row(self) -> SequenceView | None:
        return self.scene.view.sequences.get(self.scene.selected or 0)

    def title(self) -> Sequence[Span]:
        palette, view, row = self.scene.palette, self.scene.view, self._row()
        if row is None:
            return [("block table", palette.named.title)]
        return [
            ("block table of ", palette.named.title),
            (who(view, row.seq), palette.owner_ink(view.slots.slot_of(row.seq))),
        ]

    def figures(self) -> Sequence[Span]:
        row = self._row()
        return [(count(len(row.table), "block"), self.scene.palette.named.muted)] if row is not None else ()

    def content(self, width: int, height: int) -> Sequence[Line]:
        named, row = self.scene.palette.named, self._row()
        if row is None:
            return [((" select a sequence: ↑ ↓ in the table, enter on a block", named.muted),)]
        if not row.table:
            return [((" it holds no block now", named.muted),)]
        columns = max(1, (width - 1) // ENTRY)
        rows = -(-len(row.table) // columns)
        if rows > height:  # the end of the table is where things happen
            first = len(row.table) - columns * height
            rows = height
        else:
            first = 0
        entries = [self._entry(row, index) for index in range(first, len(row.table))]
        lines: list[Line] = []
        for line in range(rows):
            spans: list[Span] = [(" ", named.text)]
            for entry in entries[line::rows]:
                spans += entry
            lines.append(tuple(spans))
        return lines

    def _entry(self, row: SequenceView, index: int) -> Line:
        """``12 → 417²``: the block's number on its owner's colour, hollow while it fills."""
        palette, view = self.scene.palette, self.scene.view
        block = row.table[index]
        (fill,) = fill_levels(view.blocks.fills[[block]], view.block_size).tolist()
        cell = Cell(ACTIVE, view.slots.slot_of(row.seq), fill, shared=bool(view.blocks.ref_counts[block] > 1))
        number = f"{view.block_id(block):,}"
        return (
            (f"{index:>4} ", palette.named.muted),
            ("→ ", palette.named.faint),
            (number, palette.cell(cell)),
            (" " * max(1, ENTRY - 7 - len(number)), palette.named.text),
        )
