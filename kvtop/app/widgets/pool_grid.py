"""The pool grid: one cell a block, coloured and lettered by its owner; the heart of the screen.

It turns the view's arrays into codes (``grid/codes.py``), compares them with the codes on the screen, and draws the
rows that differ. A card over the grid tells what no grid can: loading, no traffic yet, a dead engine.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.segment import Segment
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from kvtop.app.actions import panel_bindings
from kvtop.app.grid.codes import NOTHING, Codes, Marks, rows_of
from kvtop.app.grid.ink import Ink
from kvtop.app.grid.pool_codes import PoolCodes
from kvtop.app.grid.shape import Shape, Zoom, shape_for
from kvtop.app.grid.tones import WORDS
from kvtop.app.lines import Line, Span, line_width, strip_of
from kvtop.app.marks import blocks_for
from kvtop.app.palette import ACTIVE, CACHED, FREE, Cell
from kvtop.app.scene import Scene
from kvtop.app.widgets.painted import Framed
from kvtop.app.widgets.state_card import card_for
from kvtop.view.colours import Depth

CELL_BYTES = 42
"""What a run of equal cells costs on the wire, colours included."""


class PoolGrid(Framed, can_focus=True):
    """``shape`` is how the pool lies on the screen now; None while there is no pool."""

    BINDINGS = panel_bindings("grid")

    class Pointed(Message):
        """The mouse was pressed on a block."""

        def __init__(self, block: int) -> None:
            self.block = block
            super().__init__()

    def __init__(self, scene: Scene, id: str) -> None:
        super().__init__(scene, id)
        self.shape: Shape | None = None
        self.first_row = 0
        self._ink = Ink(scene.palette, scene.terminal.fine_marks)
        self._pool_codes = PoolCodes()
        self._codes: Codes = np.zeros((0, 0), np.int64)
        self._edges: tuple[Line, Line] = ((), ())
        self._card: tuple[Line, ...] = ()
        self._looks: tuple[object, ...] = ()
        self._drawn_step = -1
        self._behind = False
        """Rows wait for a later frame."""
        self._next_row = 0
        """Where to go on when a frame could not hold all changed rows."""
        self._cursor_row = -1
        """Where the cursor was drawn last."""

    @property
    def moves_with_time(self) -> bool:
        return self.scene.feed.live.info is None or self._behind

    # --- words in the frame ---------------------------------------------------------------------------------------

    def title(self) -> Sequence[Span]:
        named = self.scene.palette.named
        words: list[Span] = [("pool", named.title)]
        if self.shape is not None and self.size.width >= 50:
            words.append((f" · {self.shape.label}", named.muted))
        if self.scene.mode != "owner":
            words.append((f" · {WORDS[self.scene.mode].title}", named.warning))
        return words

    def figures(self) -> Sequence[Span]:
        named = self.scene.palette.named
        if self.shape is None or self.shape.rows * self.shape.cell_height <= self.size.height - 2:
            return ()
        shown = max(1, (self.size.height - 2) // self.shape.cell_height)
        last = min(self.shape.rows, self.first_row + shown)
        return [(f"rows {self.first_row + 1}–{last} of {self.shape.rows}", named.muted)]

    def note(self) -> Sequence[Span]:
        """The block under the cursor, in short; without one, how to read the cells."""
        view, named = self.scene.view, self.scene.palette.named
        block = self.scene.cursor
        if view.info is None:
            return ()
        if block is None or block >= view.blocks.num_blocks:
            return self._legend()
        if self.shape is not None and self.shape.per_cell > 1:
            return self._group_note(block, self.shape.per_cell)
        refs, fill = int(view.blocks.ref_counts[block]), int(view.blocks.fills[block])
        words: list[Span] = [(f"block {view.block_id(block):,} ", named.strong)]
        holder = int(view.blocks.holders[block])
        if refs:
            slot = view.slots.slot_of(holder)
            words.append((view.name_of(holder), self.scene.palette.owner_ink(slot)))
            words.append((f" · {fill}/{view.block_size} slots", named.text))
            if refs > 1:
                words.append((f" · shared by {refs}", named.text))
        elif view.blocks.hashes[block]:
            words.append((f"cached, last {view.name_of(holder)}", named.muted))
        else:
            words.append(("free", named.muted))
        return words

    def _group_note(self, block: int, per_cell: int) -> Sequence[Span]:
        view, named = self.scene.view, self.scene.palette.named
        blocks = view.blocks
        first = block - block % per_cell
        group = slice(first, first + per_cell)
        held = int((blocks.ref_counts[group] > 0).sum())
        cached = int(((blocks.ref_counts[group] == 0) & (blocks.hashes[group] != 0)).sum())
        last = min(first + per_cell, blocks.num_blocks) - 1
        return [
            (f"blocks {view.block_id(first):,}–{view.block_id(last):,} ", named.strong),
            (f"{held} held · {cached} cached · {last - first + 1 - held - cached} free", named.text),
        ]

    def _legend(self) -> Sequence[Span]:
        palette, mode = self.scene.palette, WORDS[self.scene.mode]
        muted = palette.named.muted
        if mode.legend:
            spans: list[Span] = []
            for tone, meaning in mode.legend:
                spans += [(mode.letters[tone], palette.tone(Cell(ACTIVE, tone))), (f" {meaning} ", muted)]
            return spans
        if self.shape is not None and self.shape.zoom == Zoom.HALF:
            halves = ((Cell(ACTIVE, 0), "held"), (Cell(ACTIVE, 0, fill=3), "partly filled"),
                      (Cell(CACHED, 0), "cached"), (Cell(FREE), "free"))  # fmt: skip
            return [span for cell, word in halves for span in (("▀", self._ink.upper_half(cell)), (f" {word} ", muted))]
        return [
            ("A", palette.cell(Cell(ACTIVE, 0))), (" held ", muted),
            ("A", palette.cell(Cell(ACTIVE, 0, fill=3))), (" partly filled ", muted),
            ("A", palette.cell(Cell(ACTIVE, 0, shared=True))), (" shared ", muted),
            ("A", palette.cell(Cell(CACHED, 0))), (" cached ", muted),
            ("·", palette.cell(Cell(FREE))), (" free", muted),
        ]  # fmt: skip

    # --- drawing --------------------------------------------------------------------------------------------------

    def redraw(self) -> None:
        width, height = self.size.width - 2, self.size.height - 2
        if width < 1 or height < 1:
            return
        view = self.scene.view
        card = tuple(card_for(self.scene, width, height))
        if view.info is None or not view.blocks.num_blocks:
            self.shape = None
            codes = np.full((height, 1), -1, np.int64)
        else:
            half_cells = self.scene.palette.depth > Depth.ANSI
            self.shape = shape_for(view.blocks.num_blocks, width, height, self.scene.zoom, half_cells)
            self._keep_cursor_in_sight(height)
            codes = self._wanted_codes(height)
        edges = (
            self._edge("╭", "╮", self.heading(), self.figures(), self.size.width),
            self._edge("╰", "╯", self.note(), (), self.size.width),
        )
        looks = (self.size, self.shape, self.first_row, self.scene.palette, self.frame, self.scene.mode)
        if self._ink.mode != self.scene.mode:
            self._ink = Ink(self.scene.palette, self.scene.terminal.fine_marks, self.scene.mode)
        if looks != self._looks or codes.shape != self._codes.shape or card != self._card:
            changed = list(range(codes.shape[0]))
            self._strips = [Strip.blank(self.size.width, self.blank)] * self.size.height
            self._edges = ((), ())
        else:
            changed = self._affordable(codes, np.flatnonzero((codes != self._codes).any(axis=1)).tolist())
        self._looks, self._codes, self._card, self._drawn_size = looks, codes, card, self.size
        self._draw(edges, changed, width, height)
        self._drawn_step = view.step

    def _wanted_codes(self, height: int) -> Codes:
        shape, scene = self.shape, self.scene
        assert shape is not None
        view = scene.view
        since = view.step if self.scene.stands else self._drawn_step + 1
        if self._drawn_step < 0:
            since = view.step + 1
        lit = self._lit()
        numbered = "table" in scene.extras and lit is not None
        marks = Marks(scene.cursor, lit if lit is not None else self._pointed_at(), numbered, changed_since=since)
        codes = self._pool_codes.update(view, marks, shape.per_cell, scene.mode)
        return rows_of(codes, shape, self.first_row, max(1, height // shape.cell_height))

    def _affordable(self, codes: Codes, changed: list[int]) -> list[int]:
        """The changed rows that fit into a frame on a slow link: where the cursor is and was, in any case, then those
        that waited longest, one at least unless nothing is left to write. The others keep their old codes, and their
        turn comes with the next frames."""
        limit = self.scene.frame_bytes
        self._behind = False
        if limit is None or not changed:
            return changed
        shape, cursor = self.shape, self.scene.cursor
        here = shape.row_of(cursor) - self.first_row if shape is not None and cursor is not None else -1
        at_once = {here, self._cursor_row}
        self._cursor_row = here
        order = sorted(changed, key=lambda row: (row not in at_once, (row - self._next_row) % len(codes)))
        kept: list[int] = []
        spent = limit <= 0
        for row in order:
            limit -= CELL_BYTES * int((codes[row, 1:] != codes[row, :-1]).sum() + 1)
            if limit < 0 and row not in at_once and (kept or spent):
                break
            kept.append(row)
        self._behind = len(kept) < len(changed)
        if kept:
            self._next_row = (kept[-1] + 1) % len(codes)
        for row in set(changed) - set(kept):
            codes[row] = self._codes[row]
        return sorted(kept)

    def _lit(self) -> np.ndarray | None:
        """Blocks of the selected sequence, when it holds any."""
        if self.scene.selected is None:
            return None
        sequence = self.scene.view.sequences.get(self.scene.selected)
        return np.array(sequence.table, np.int64) if sequence is not None and sequence.table else None

    def _pointed_at(self) -> np.ndarray | None:
        """Blocks that a lesson points at."""
        return blocks_for(self.scene.watch, self.scene.view)

    def _keep_cursor_in_sight(self, height: int) -> None:
        shape, cursor = self.shape, self.scene.cursor
        assert shape is not None
        shown = max(1, height // shape.cell_height)
        if cursor is not None:
            row = shape.row_of(min(cursor, shape.num_blocks - 1))
            self.first_row = min(max(self.first_row, row - shown + 1), row)
        self.first_row = max(0, min(self.first_row, shape.rows - shown))

    def _draw(self, edges: tuple[Line, Line], changed: Sequence[int], width: int, height: int) -> None:
        side = Segment("│", self.frame)
        dirty: list[int] = []
        shape = self.shape
        tall = shape.cell_height if shape is not None else 1
        for row in changed:
            if shape is None or self._codes[row, 0] == NOTHING:
                inner = [Strip.blank(width, self.blank)] * tall
            else:
                first_block = (self.first_row + row) * shape.blocks_per_row
                inner = self._ink.strips(self._codes[row], shape, self.scene.view.block_id(first_block), width)
            for line, strip in enumerate(inner):
                y = row * tall + line + 1
                if y <= height:
                    self._strips[y] = Strip([side, *strip, side], width + 2)
                    dirty.append(y)
        for y in range(len(self._codes) * tall + 1, height + 1) if len(changed) == len(self._codes) else ():
            self._strips[y] = Strip([side, Segment(" " * width, self.blank), side], width + 2)
        for y, before, edge in ((0, self._edges[0], edges[0]), (height + 1, self._edges[1], edges[1])):
            if before != edge:
                self._strips[y] = strip_of(edge, width + 2)
                dirty.append(y)
        self._edges = edges
        if self._card and dirty:
            self._lay_card(width, height)
        if 2 * len(dirty) > self.size.height:
            self.refresh()
        elif dirty:
            self.refresh(*(Region(0, y, width + 2, 1) for y in dirty))

    def _lay_card(self, width: int, height: int) -> None:
        """Put the card over the middle of the grid."""
        wide = min(width, max(line_width(line) for line in self._card))
        top, left = 1 + max(0, (height - len(self._card)) // 2), 1 + (width - wide) // 2
        for y, line in enumerate(self._card[:height], top):
            below = self._strips[y]
            middle = strip_of(line, line_width(line))
            self._strips[y] = Strip.join([below.crop(0, left), middle, below.crop(left + line_width(line), width + 2)])

    def forget(self) -> None:
        self._ink = Ink(self.scene.palette, self.scene.terminal.fine_marks, self.scene.mode)
        self._looks = ()
        self.redraw()

    # --- pointing -------------------------------------------------------------------------------------------------

    def block_under(self, x: int, y: int) -> int | None:
        """The block at a place inside the widget; None on the frame and beside the grid."""
        if self.shape is None or not 0 < x < self.size.width - 1 or not 0 < y < self.size.height - 1:
            return None
        return self.shape.block_at(x - 1, y - 1 + self.first_row * self.shape.cell_height)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        block = self.block_under(event.x, event.y)
        if block is not None:
            self.post_message(self.Pointed(block))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._scroll(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._scroll(-3)

    def _scroll(self, rows: int) -> None:
        if self.shape is not None and self.scene.cursor is None:
            self.first_row += rows
            self.redraw()
