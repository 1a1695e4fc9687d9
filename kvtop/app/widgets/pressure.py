"""The pressure chart: held and cached blocks over the last minute, stacked, with the watermark and preemptions.

An area chart of eighth blocks, drawn line by line; what is not known is left blank. Values come from ``view.series``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.style import Style

from kvtop.app.lines import Line, Span
from kvtop.app.widgets.painted import Framed
from kvtop.app.widgets.time_axis import time_axis
from kvtop.view.colours import Depth
from kvtop.view.series import BIN_SECONDS, Column, Values

SECONDS = 60
GUTTER = 5
_EIGHTHS = " ▁▂▃▄▅▆▇█"


class Pressure(Framed):
    @property
    def moves_with_time(self) -> bool:
        return True

    def state(self) -> object:
        """It moves with the bins of the series, twice a second."""
        view = self.scene.view
        return int(self.scene.now_s / BIN_SECONDS), view, view.info is None, view.settings.get("watermark")

    def title(self) -> Sequence[Span]:
        named = self.scene.palette.named
        return [("pressure", named.title), (f" {SECONDS} s", named.muted)]

    def figures(self) -> Sequence[Span]:
        palette = self.scene.palette
        named = palette.named
        if self.size.width < 44:
            return ()
        return [
            ("■", palette.style_of("active", "background")), (" held ", named.muted),
            (self._cached_mark, palette.style_of("cached", "background")), (" cached ", named.muted),
            ("▲", named.bad), (" preempted", named.muted),
        ]  # fmt: skip

    @property
    def _cached_mark(self) -> str:
        return "░" if self.scene.palette.depth == Depth.NONE else "■"

    def content(self, width: int, height: int) -> Sequence[Line]:
        view = self.scene.view
        points, rows = width - GUTTER - 1, height - 1
        if view.info is None or points < 9 or rows < 2:
            return ()
        now = self.scene.now_s
        total = max(1, view.blocks.num_blocks)
        active = view.series.over_time(Column.ACTIVE, now, SECONDS, points) / total
        cached = view.series.over_time(Column.CACHED, now, SECONDS, points) / total
        thrown = view.series.over_time(Column.PREEMPTIONS, now, SECONDS, points)
        keep_free = float(view.settings.get("watermark", view.info.watermark))
        lines = [self._row(rows - 1 - i, rows, active, active + cached, keep_free) for i in range(rows)]
        return [*lines, self._axis(thrown)]

    def _row(self, row: int, rows: int, active: Values, top: Values, keep_free: float) -> Line:
        """Row ``row`` from below; equal neighbours become one span."""
        palette = self.scene.palette
        named = palette.named
        label = {rows - 1: "100%", (rows - 1) // 2: " 50%", 0: "  0%"}.get(row, "") if rows >= 4 else ""
        spans: list[Span] = [(f"{label:>4} ", named.faint)]
        watermark_row = int((1 - keep_free) * rows) if keep_free > 0 else -1
        for held, filled in zip(_levels(active, row, rows), _levels(top, row, rows), strict=True):
            char, style = self._cell(held, filled)
            if row == watermark_row and filled < 8:
                char, style = "╌", named.warning
            if spans[-1][1] is style and len(spans) > 1:
                spans[-1] = (spans[-1][0] + char, style)
            else:
                spans.append((char, style))
        return tuple(spans)

    def _cell(self, held: int, filled: int) -> tuple[str, Style]:
        """One character from the eighths that are held, and held or cached, in it."""
        palette = self.scene.palette
        if palette.depth == Depth.NONE:
            char = _EIGHTHS[held] if held else ("░" if filled >= 4 else " ")
            return char, palette.named.text
        if held >= 8:
            return "█", palette.style_of("active", "background")
        if held > 0:
            return _EIGHTHS[held], palette.style_of("active", "cached" if filled >= 7 else "background")
        return _EIGHTHS[filled], palette.style_of("cached", "background")

    def _axis(self, thrown: Values) -> Line:
        named = self.scene.palette.named
        marks = np.diff(thrown, prepend=thrown[:1]) > 0
        return ((" " * GUTTER, named.text), *time_axis(f"-{SECONDS} s", marks.tolist(), named.faint, named.bad))


def _levels(values: Values, row: int, rows: int) -> list[int]:
    """Eighths of row ``row`` that each value fills, 0 to 8; unknown is 0. A value above 0 shows at least one eighth."""
    eighths = np.nan_to_num(values * rows * 8)
    eighths = np.where((eighths > 0) & (eighths < 1), 1, np.round(eighths))
    return [int(level) for level in np.clip(eighths - row * 8, 0, 8)]
