"""Codes → strips: the last step before the terminal, and the hot one.

Equal neighbours become one segment, and segments are kept, so a frame of ten thousand blocks is a
few hundred dictionary look-ups. It decides nothing about the pool; what a code means is in ``codes.py``.
"""

from __future__ import annotations

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from kvtop.app.grid.codes import MAX_REFS, NOTHING, Codes, cell_of, logical_of, refs_of
from kvtop.app.grid.shape import Shape, Zoom
from kvtop.app.grid.tones import WORDS, Mode
from kvtop.app.palette import FREE, FULL, Cell, Palette
from kvtop.view.colours import Depth
from kvtop.view.owner_slots import glyph

_EIGHTHS = "▁▂▃▄▅▆▇"
_OF_EIGHT = (0, 1, 2, 3, 4, 6, 7)
"""Fill level → eighths of a line that stand for it; an empty block, level 0, has no bar."""
_OF_SIXTEEN = (0, 2, 4, 6, 8, 12, 14)
"""The same for the two lines of a tile."""
_POWERS = "  ²³⁴⁵⁶⁷⁸⁹⁺"
_KEPT_SEGMENTS = 20_000
_HALF_NOTHING = 0xFFFFFFFF


class Ink:
    """Draws rows of codes with one palette, in one mode."""

    def __init__(self, palette: Palette, fine_marks: bool, mode: Mode = "owner") -> None:
        self._palette = palette
        self.mode = mode
        self._eighths = " " + (_EIGHTHS if fine_marks else ".:-=+*#")
        self._brim = "█" if fine_marks else "#"
        self._powers = _POWERS if fine_marks else "  23456789+"
        self._segments: dict[tuple[int, int, int], Segment] = {}
        """By zoom, code, and the number of cells; of a tile's, the line."""
        self._gutter = palette.named.faint
        self._blank = palette.named.text
        self._gap = Segment(" ", self._blank)

    def strips(self, row: Codes, shape: Shape, first_block: int, width: int) -> list[Strip]:
        """The strips (as many as a cell is high) of one row of cells, each ``width`` characters wide."""
        if shape.cell_height > 1:
            return [self._line_of_large(row, shape, first_block, line, width) for line in range(shape.cell_height)]
        segments = []
        if shape.gutter:
            segments.append(Segment(f"{first_block:>{shape.gutter - 1}} ", self._gutter))
        edges = np.flatnonzero(row[1:] != row[:-1]) + 1
        starts = [0, *edges.tolist()]
        ends = [*starts[1:], len(row)]
        codes = row[starts].tolist()
        segments += [
            self._segment(shape.zoom, code, end - start) for code, start, end in zip(codes, starts, ends, strict=True)
        ]
        drawn = shape.gutter + len(row) * shape.cell_width
        if drawn < width:
            segments.append(Segment(" " * (width - drawn), self._blank))
        return [Strip(segments, width)]

    def _segment(self, zoom: Zoom, code: int, length: int) -> Segment:
        key = (zoom, code, length)
        found = self._segments.get(key)
        if found is None:
            half = zoom == Zoom.HALF
            made = self._half(code, length) if half else Segment(self._text(zoom, code) * length, self._style(code))
            found = self._keep(key, made)
        return found

    def _keep(self, key: tuple[int, int, int], segment: Segment) -> Segment:
        if len(self._segments) >= _KEPT_SEGMENTS:
            self._segments.clear()
        self._segments[key] = segment
        return segment

    def _style(self, code: int) -> Style:
        if code == NOTHING:
            return self._blank
        style = self._palette.cell(cell_of(code)) if self.mode == "owner" else self._palette.tone(cell_of(code))
        logical = logical_of(code)
        return style if logical is None or logical % 2 == 0 else self._palette.striped(style)

    def _text(self, zoom: Zoom, code: int) -> str:
        if code == NOTHING:
            return "  " if zoom == Zoom.WIDE else " "
        letter, cell, logical = self.letter(code), cell_of(code), logical_of(code)
        if zoom != Zoom.WIDE:
            return letter
        if logical is not None:
            return f"{logical % 100:>2}"
        if self.mode != "owner":
            return letter + " "
        if cell.state == FREE:
            return letter + " "
        return letter + (self._level(cell.fill) if cell.fill < FULL else self._powers[refs_of(code)])

    def letter(self, code: int) -> str:
        """The one character that stands for the block's owner."""
        cell = cell_of(code)
        if self._palette.depth == Depth.NONE and cell.cursor:
            return "@"
        logical = logical_of(code)
        if logical is not None:
            return str(logical % 10)
        if cell.state == FREE or cell.slot < 0:
            return "·"
        return glyph(cell.slot) if self.mode == "owner" else WORDS[self.mode].letters[cell.slot]

    def _half(self, code: int, length: int) -> Segment:
        if code == NOTHING:
            return Segment(" " * length, self._blank)
        upper, lower = code >> 32, code & 0xFFFFFFFF
        ink = self._style(upper).bgcolor
        paper = (self._blank if lower == _HALF_NOTHING else self._style(lower)).bgcolor
        return Segment("▀" * length, Style(color=ink, bgcolor=paper))

    def upper_half(self, cell: Cell) -> Style:
        """The style of ``▀`` for a block with nothing below it, as HALF draws it."""
        return Style(color=self._palette.cell(cell).bgcolor, bgcolor=self._blank.bgcolor)

    def _line_of_large(self, row: Codes, shape: Shape, first_block: int, line: int, width: int) -> Strip:
        """One line of a row of cards or tiles; the last column of each, and a card's last line, are left as a gap."""
        segments = []
        if shape.gutter:
            label = f"{first_block:>{shape.gutter - 1}} " if line == 0 else " " * shape.gutter
            segments.append(Segment(label, self._gutter))
        for column, code in enumerate(row.tolist()):
            if code == NOTHING or line == 2:
                segments.append(Segment(" " * shape.cell_width, self._blank))
            elif shape.zoom == Zoom.CARD:
                text = self._card_text(code, first_block + column, line)
                segments += [Segment(text, self._style(code)), self._gap]
            else:
                segments += [self._tile(code, line), self._gap]
        drawn = shape.gutter + len(row) * shape.cell_width
        if drawn < width:
            segments.append(Segment(" " * (width - drawn), self._blank))
        return Strip(segments, width)

    def _tile(self, code: int, line: int) -> Segment:
        key = (Zoom.TILE, code, line)
        found = self._segments.get(key)
        if found is None:
            found = self._keep(key, Segment(self._tile_text(code, line), self._style(code)))
        return found

    def _card_text(self, code: int, block: int, line: int) -> str:
        if line == 0:
            logical = logical_of(code)
            return f"{self.letter(code) if logical is None else logical}{block:>6}"[-7:]
        refs = refs_of(code)
        shared = "" if refs < 2 else f"×{refs}" if refs < MAX_REFS else f"≥{MAX_REFS}"
        return f"{self._bar(code, 4)}{shared:>3}"

    def _tile_text(self, code: int, line: int) -> str:
        logical = logical_of(code)
        if line == 0 and logical is not None:
            return f"{logical:>3}"[-3:]
        cell = cell_of(code)
        level = _OF_SIXTEEN[cell.fill] if cell.state != FREE and cell.fill < FULL else 0
        if line == 1:
            return self._eighths_high(min(8, level)) * 3
        above = self._eighths_high(max(0, level - 8))
        return self.letter(code) + (self._powers[refs_of(code)] if refs_of(code) > 1 else above) + above

    def _eighths_high(self, level: int) -> str:
        return f"{self._eighths}{self._brim}"[level]

    def _level(self, fill: int) -> str:
        return self._eighths[_OF_EIGHT[fill]]

    def _bar(self, code: int, cells: int) -> str:
        """How full a partly filled block is, as a bar; nothing for the others."""
        cell = cell_of(code)
        return self._level(cell.fill) * cells if cell.state != FREE and cell.fill < FULL else " " * cells
