"""How the lab's pools are drawn: tokens solid, what is held for nothing hatched, what is free dark.

A cell of many slots is filled from below as far as its slots hold tokens; above stands what most of the rest is. A
slot that has a cell of its own carries its owner's letter. Kind is told by hatching as well as by colour.
"""

from __future__ import annotations

from itertools import groupby

import numpy as np
from rich.style import Style

from kvtop.app.lines import Line, Span
from kvtop.app.palette import Palette
from kvtop.lab.pool_picture import CACHED, EXTERNAL, FREE, INTERNAL, KINDS, LIVE, RESERVED, Counts, PoolPicture
from kvtop.view.colours import Depth

TOP = 8
"""The level of a cell all of whose slots hold tokens."""
NO_CELL = -1
_FINE = {LIVE: " ", RESERVED: "░", INTERNAL: "▒", EXTERNAL: "╱", CACHED: "-", FREE: "·"}
_PLAIN = {LIVE: "#", RESERVED: "r", INTERNAL: "i", EXTERNAL: "/", CACHED: "-", FREE: "."}
_LOOKS = {
    LIVE: ("background", 1.0, "active", 0.85),
    RESERVED: ("warning", 0.55, "warning", 0.22),
    INTERNAL: ("bad", 0.65, "bad", 0.28),
    EXTERNAL: ("bad", 0.9, "free", 1.0),
    CACHED: ("cached", 1.0, "cached", 0.35),
    FREE: ("free_mark", 1.0, "free", 1.0),
}
"""Ink and paper, each with its share over the background."""


def cell_codes(counts: Counts) -> Counts:
    """int64[cells]: ``level * KINDS + kind of most of the rest`` for counts[cells, KINDS]; NO_CELL where no slot is."""
    total, live = counts.sum(axis=1), counts[:, LIVE]
    level = np.rint(TOP * live / np.maximum(total, 1)).astype(np.int64)
    rest = counts.copy()
    rest[:, LIVE] = 0
    kind = np.where(level == TOP, LIVE, rest.argmax(axis=1))
    return np.where(total == 0, NO_CELL, level * KINDS + kind)


class LabInk:
    """Draws with one palette."""

    def __init__(self, palette: Palette, fine_marks: bool) -> None:
        self._palette = palette
        self._levels = " ▁▂▃▄▅▆▇ " if fine_marks else " .:-=+*# "
        self._glyphs = _FINE if fine_marks else _PLAIN
        self._blank = palette.named.text
        self._styles = {kind: palette.tinted(*look) for kind, look in _LOOKS.items()}
        if palette.depth <= Depth.ANSI:
            self._styles[LIVE] = self._styles[LIVE] + palette.style("active") + Style(reverse=True)
        self._spans: dict[int, tuple[str, Style]] = {}

    def sample(self, kind: int) -> Span:
        """What a cell of one kind looks like, for the legend."""
        return self._glyphs[kind], self._styles[kind]

    def row(self, codes: Counts, width: int) -> Line:
        """One row of cells, ``width`` characters wide."""
        spans: list[Span] = []
        for code, cells in groupby(codes.tolist()):
            glyph, style = self._cell(code)
            spans.append((glyph * len(list(cells)), style))
        if len(codes) < width:
            spans.append((" " * (width - len(codes)), self._blank))
        return tuple(spans)

    def _cell(self, code: int) -> tuple[str, Style]:
        found = self._spans.get(code)
        if found is None:
            found = self._spans[code] = self._drawn(code)
        return found

    def _drawn(self, code: int) -> tuple[str, Style]:
        if code == NO_CELL:
            return " ", self._blank
        level, kind = divmod(code, KINDS)
        if level in (0, TOP):
            return self.sample(kind)
        ink, paper = self._styles[LIVE], self._styles[kind]
        if self._palette.depth <= Depth.ANSI:
            return self._levels[level], self._palette.named.text if ink.color is None else Style(color=ink.color)
        return self._levels[level], Style(color=ink.bgcolor, bgcolor=paper.bgcolor)

    def _letter(self, style: Style, kind: int) -> Style:
        """An owner's letter must be read on every kind of ground."""
        if kind in (RESERVED, INTERNAL):
            style = style + Style(color=self._palette.named.text.color)
        return style + Style(bold=True) if kind in (LIVE, RESERVED, INTERNAL) else style

    def slots(self, picture: PoolPicture, slot_width: int, height: int) -> list[Line]:
        """Every slot by itself, in one row of ``height`` lines; slots of one block, or of one region, hang together."""
        kinds = picture.cells(1).argmax(axis=1).tolist()
        holders = [name for name in picture.holders() for _ in range(picture.block_size)]
        lines: list[Line] = []
        for y in range(height):
            spans: list[Span] = []
            for slot, (kind, holder) in enumerate(zip(kinds, holders, strict=True)):
                glyph, style = self._glyphs[kind], self._styles[kind]
                fill = glyph if kind != FREE else " "
                letter = holder[:1] or glyph
                before = (slot_width - 1) // 2
                middle = (letter, self._letter(style, kind)) if y == height // 2 else (fill, style)
                spans += [(fill * before, style), middle, (fill * (slot_width - 2 - before), style)]
                last_of_block = (slot + 1) % picture.block_size == 0
                joined = not last_of_block or (
                    picture.block_size == 1 and holder != "" and holders[slot + 1 : slot + 2] == [holder]
                )
                spans.append((fill if joined else " ", style if joined else self._blank))
            lines.append(tuple(spans))
        return lines
