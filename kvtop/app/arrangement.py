"""Which panel stands where, on each tab and at any terminal size.

Wide and high enough: two columns. Narrower: the right column goes and what matters most of it moves under the grid;
lower: panels go from below. The grid always stays. Arithmetic only; ``PanelLayout`` hands the result to Textual.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget

from kvtop.app.lesson_arrangement import beside_a_lesson, lesson_apart

Tab = Literal["live", "requests", "prefix", "lab", "findings"]
PANELS_OF: dict[Tab, tuple[str, ...]] = {
    "live": ("grid", "sequences"),
    "requests": ("requests", "life"),
    "prefix": ("prefix", "block"),
    "lab": ("lab",),
    "findings": ("findings", "log"),
}
"""The panel a tab is about, and the one that goes with it, if any does."""

TAB_LINE_FROM = 24
"""Terminal height from which the tabs have a line of their own."""
TWO_COLUMNS_FROM = (100, 20)
"""Width, and height between top lines and footer."""


def arrange(
    width: int, height: int, extras: Sequence[str] = (), tab: Tab = "live", watch: str = ""
) -> dict[str, Region]:
    """Panel name → region. ``extras``: panels that were asked for and take the place of others on the live tab, the
    dearest first: "decision" and "text" that of the pressure chart (both: the text has that of the log), "table" that
    of the block; in one column they have that of the chart and of the log, as far as these have one, else that of the
    sequences. "lesson" stands before all others; ``watch`` is the panel it points at, which is to be in sight."""
    if height < 5 or width < 10:
        return {PANELS_OF[tab][0]: Region(0, 0, width, height)}
    head = 2 if height >= 10 else 1
    regions = {"headline": Region(0, 0, width, head), "footer": Region(0, height - 1, width, 1)}
    if height >= TAB_LINE_FROM:
        regions["tabs"] = Region(0, head, width, 1)
        head += 1
    body = Region(0, head, width, height - head - 1)
    if "lesson" in extras and tab != "lab":  # side by side takes the whole width
        regions["lesson"], body = lesson_apart(body)
    if tab == "lab":
        regions["lab"] = body
    elif tab != "live":
        regions |= _two_panels(body, tab)
    elif body.width >= TWO_COLUMNS_FROM[0] and body.height >= TWO_COLUMNS_FROM[1]:
        regions |= _two_columns(body, extras, watch)
    elif "lesson" in extras:
        regions |= beside_a_lesson(body, extras, watch)
    else:
        regions |= _one_column(body, extras)
    return regions


def _two_panels(body: Region, tab: Tab) -> dict[str, Region]:
    """Requests and a life side by side where there is room; trees and sentences take the whole width."""
    main, other = PANELS_OF[tab]
    if body.height < 12:
        return {main: body}
    if tab == "requests" and body.width >= TWO_COLUMNS_FROM[0]:
        first, second = body.split_vertical(body.width * 3 // 5)
    elif tab == "prefix":
        first, second = body.split_horizontal(body.height - 6)
    else:
        first, second = body.split_horizontal(body.height // 2)
    return {main: first, other: second}


def _corner(extras: Sequence[str], watch: str) -> str:
    if watch == "pressure":
        return watch
    return next((name for name in ("decision", "text") if name in extras), "pressure")


def _two_columns(body: Region, extras: Sequence[str], watch: str) -> dict[str, Region]:
    right_width = max(46, min(92, round(body.width * 0.42)))
    low = max(6, min(14, round(body.height * 0.27)))
    corner = _corner(extras, watch)
    if corner != "pressure":
        low = max(low, min(12, body.height // 2))
    left, right = body.split_vertical(body.width - right_width)
    grid, log = left.split_horizontal(left.height - low)
    upper, corner_region = right.split_horizontal(right.height - low)
    regions = {"grid": grid, "text" if {"decision", "text"} <= set(extras) else "log": log, corner: corner_region}
    block = 9 if upper.height >= 19 or "table" in extras else 0
    sequences, block_region = upper.split_horizontal(upper.height - block)
    regions["sequences"] = sequences
    if block:
        regions["table" if "table" in extras else "block"] = block_region
    return regions


def _one_column(body: Region, extras: Sequence[str]) -> dict[str, Region]:
    heights = {"sequences": 0, "log": 0, "pressure": 0}
    if body.height >= 12:
        heights["sequences"] = max(5, body.height * 3 // 10)
    if body.height >= 19:
        heights["log"] = max(5, body.height // 5)
    if body.height >= 34:
        heights["pressure"] = 8
    places = [place for place in ("pressure", "log") if heights[place]]
    if not places:  # the table of sequences yields to what is told of one of them
        places, extras = ["sequences"], [name for name in extras if name in ("text", "table")]
    names = dict(zip(places, extras, strict=False))
    for place, name in names.items():
        if name == "decision":  # a path of four turns, from the question to what was done
            heights[place] = max(heights[place], min(9, body.height * 2 // 5))
    regions = {"grid": Region(0, body.y, body.width, body.height - sum(heights.values()))}
    y = regions["grid"].bottom
    for name, height in heights.items():
        if height:
            regions[names.get(name, name)] = Region(0, y, body.width, height)
            y += height
    return regions


class PanelLayout(Layout):
    """Places the children of a screen by their ids; those without a place are left out."""

    name = "panels"

    def __init__(self) -> None:
        self.extras: tuple[str, ...] = ()
        self.tab: Tab = "live"
        self.watch = ""

    def arrange(self, parent: Widget, children: Sequence[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        regions = arrange(size.width, size.height, self.extras, self.tab, self.watch)
        return [
            WidgetPlacement(regions[child.id], NULL_OFFSET, NULL_SPACING, child)
            for child in children
            if child.id in regions
        ]
