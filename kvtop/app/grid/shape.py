"""The shape of the grid: which zoom, how many columns, which block lies under which character.

Six zooms, from one card a block to thousands of blocks a cell. ``shape_for`` takes the largest at which the whole
pool is in sight; at a zoom somebody asked for that is too large for the panel, the grid scrolls. Arithmetic only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

GUTTER_FROM_WIDTH = 40
"""Panels at least this wide show the number of each row's first block."""


class Zoom(IntEnum):
    CARD = 0
    """8 × 3 characters a block: number, owner, fill, ref count."""
    TILE = 1
    """4 × 2 characters a block: owner, ref count, fill."""
    WIDE = 2
    """Two characters a block: glyph, and its fill or ref count."""
    CELL = 3
    """One character a block."""
    HALF = 4
    """Two blocks a character, one above the other; colours only."""
    GROUP = 5
    """Many blocks a character: the owner of most of them, and how many are held."""


_WIDTH = {Zoom.CARD: 8, Zoom.TILE: 4, Zoom.WIDE: 2, Zoom.CELL: 1, Zoom.HALF: 1, Zoom.GROUP: 1}
_HEIGHT = {Zoom.CARD: 3, Zoom.TILE: 2}
_LABELS = {
    Zoom.CARD: "a card a block",
    Zoom.TILE: "a tile a block",
    Zoom.WIDE: "two characters a block",
    Zoom.CELL: "a cell a block",
    Zoom.HALF: "half a cell a block",
}


@dataclass(frozen=True, slots=True)
class Shape:
    zoom: Zoom
    num_blocks: int
    columns: int
    """Cells in a row."""
    per_cell: int
    """Blocks in a cell; 1 but for GROUP."""
    gutter: int
    """Characters at the left for the number of the row's first block."""

    @property
    def cell_width(self) -> int:
        return _WIDTH[self.zoom]

    @property
    def cell_height(self) -> int:
        return _HEIGHT.get(self.zoom, 1)

    @property
    def blocks_per_row(self) -> int:
        """Blocks in one row of cells."""
        return self.columns * self.per_cell * (2 if self.zoom == Zoom.HALF else 1)

    @property
    def rows(self) -> int:
        return -(-self.num_blocks // self.blocks_per_row)

    @property
    def height(self) -> int:
        """Lines of the whole grid."""
        return self.rows * self.cell_height

    @property
    def label(self) -> str:
        return _LABELS.get(self.zoom, f"{self.per_cell:,} blocks a cell")

    def row_of(self, block: int) -> int:
        return block // self.blocks_per_row

    def block_at(self, x: int, y: int) -> int | None:
        """The block (of a group: its first) at column ``x``, line ``y`` of the whole grid; None beside it."""
        column = (x - self.gutter) // self.cell_width
        if x < self.gutter or column >= self.columns or y < 0:
            return None
        block = (y // self.cell_height) * self.blocks_per_row + column * self.per_cell
        return block if block < self.num_blocks else None

    def moved(self, block: int, columns: int, rows: int) -> int:
        """The block that many cells to the right and down; it stops at the grid's ends."""
        line = self.columns * self.per_cell  # at HALF a step down is half a character
        target = block + columns * self.per_cell + rows * line
        if rows and not 0 <= target < self.num_blocks:
            return block
        return max(0, min(self.num_blocks - 1, target))


def shape_for(num_blocks: int, width: int, height: int, wish: Zoom | None = None, half_cells: bool = True) -> Shape:
    """The shape for a pool of ``num_blocks`` in ``width`` × ``height`` characters.

    ``wish``: the zoom somebody asked for; None chooses the largest that shows the whole pool. ``half_cells`` is False
    on terminals that tell owners apart by glyph, where half a cell has no room for one.
    """
    zooms = [zoom for zoom in Zoom if half_cells or zoom != Zoom.HALF]
    for zoom in zooms if wish is None else [wish if wish in zooms else Zoom.GROUP]:
        shape = _shape(zoom, num_blocks, width, height)
        if wish is not None or shape.height <= height:
            return shape
    return _shape(Zoom.GROUP, num_blocks, width, height)


def _shape(zoom: Zoom, num_blocks: int, width: int, height: int) -> Shape:
    gutter = len(str(num_blocks - 1)) + 1 if width >= GUTTER_FROM_WIDTH and zoom != Zoom.CARD else 0
    room = max(1, (width - gutter) // _WIDTH[zoom])
    rows = max(1, height // _HEIGHT.get(zoom, 1))
    columns = _round_columns(room)
    per_row = 2 if zoom == Zoom.HALF else 1
    if zoom != Zoom.GROUP:
        if -(-num_blocks // (columns * per_row)) > rows:
            columns = room  # a round number of columns is worth less than the whole pool in sight
        return Shape(zoom, num_blocks, min(columns, max(1, num_blocks)), 1, gutter)
    least = max(2, -(-num_blocks // (columns * rows)))
    unit = 1 << max(0, least.bit_length() - 3)  # two figures after the leading bit: 2..8, 10, 12, 14, 16, 20, 24, ...
    return Shape(zoom, num_blocks, columns, -(-least // unit) * unit, gutter)


def _round_columns(room: int) -> int:
    """A multiple of 8 (else of 4) when that leaves little of the width unused, so that row numbers read well."""
    for unit in (16, 8, 4):
        rounded = room // unit * unit
        if rounded >= 0.88 * room:
            return rounded
    return room
