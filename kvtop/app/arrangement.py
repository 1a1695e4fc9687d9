"""Which panel stands where, at any terminal size.

Wide and high enough: two columns. Narrower: the right column goes and what matters most of it moves under the grid;
lower: panels go from below. The grid always stays. Arithmetic only; ``PanelLayout`` hands the result to Textual.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget

TWO_COLUMNS_FROM = (100, 20)
"""Width, and height between top lines and footer."""


def arrange(width: int, height: int, decision: bool) -> dict[str, Region]:
    """Panel name → region. ``decision``: the decision path is wanted, in place of the pressure chart (or of the log,
    where there is no chart)."""
    if height < 5 or width < 10:
        return {"grid": Region(0, 0, width, height)}
    head = 2 if height >= 10 else 1
    regions = {"headline": Region(0, 0, width, head), "footer": Region(0, height - 1, width, 1)}
    body = Region(0, head, width, height - head - 1)
    if body.width >= TWO_COLUMNS_FROM[0] and body.height >= TWO_COLUMNS_FROM[1]:
        regions |= _two_columns(body, decision)
    else:
        regions |= _one_column(body, decision)
    return regions


def _two_columns(body: Region, decision: bool) -> dict[str, Region]:
    right_width = max(46, min(92, round(body.width * 0.42)))
    low = max(6, min(14, round(body.height * 0.27)))
    if decision:
        low = max(low, min(12, body.height // 2))
    left, right = body.split_vertical(body.width - right_width)
    grid, log = left.split_horizontal(left.height - low)
    upper, corner = right.split_horizontal(right.height - low)
    regions = {"grid": grid, "log": log, "decision" if decision else "pressure": corner}
    block = 9 if upper.height >= 19 else 0
    sequences, block_region = upper.split_horizontal(upper.height - block)
    regions["sequences"] = sequences
    if block:
        regions["block"] = block_region
    return regions


def _one_column(body: Region, decision: bool) -> dict[str, Region]:
    heights = {"sequences": 0, "log": 0, "pressure": 0}
    if body.height >= 12:
        heights["sequences"] = max(5, body.height * 3 // 10)
    if body.height >= 19:
        heights["log"] = max(5, body.height // 5)
    if body.height >= 34:
        heights["pressure"] = 8
    lower = {"pressure": "decision", "log": "decision"} if decision else {}
    if decision and heights["pressure"]:
        lower = {"pressure": "decision"}
    regions = {"grid": Region(0, body.y, body.width, body.height - sum(heights.values()))}
    y = regions["grid"].bottom
    for name, height in heights.items():
        if height:
            regions[lower.get(name, name)] = Region(0, y, body.width, height)
            y += height
    return regions


class PanelLayout(Layout):
    """Places the children of a screen by their ids; those without a place are left out."""

    name = "panels"

    def __init__(self) -> None:
        self.decision = False

    def regions(self, size: Size) -> dict[str, Region]:
        return arrange(size.width, size.height, self.decision)

    def arrange(self, parent: Widget, children: Sequence[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        regions = self.regions(size)
        return [
            WidgetPlacement(regions[child.id], NULL_OFFSET, NULL_SPACING, child)
            for child in children
            if child.id in regions
        ]
