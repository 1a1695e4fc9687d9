"""Where a lesson stands, and which panels stand beside it: the pools of lessons are small, so the lesson has much room.

Beside the others where there is width for it, else above them. In what is left the grid stays, then comes what the
lesson points at, then what was asked for, as long as there is height. Arithmetic only.
"""

from __future__ import annotations

from collections.abc import Collection

from textual.geometry import Region

BESIDE_FROM = 76
"""Width from which a lesson stands beside the other panels."""
GRID_LINES = 8
"""What the grid keeps before a second panel gets a place."""
PANEL_LINES = (6, 9)
"""Least and largest height of the panels under the grid."""
MOST_PANELS = 2
"""Under the grid."""


def lesson_apart(body: Region) -> tuple[Region, Region]:
    """The lesson's region and what is left."""
    if body.width >= BESIDE_FROM:
        lesson, rest = body.split_vertical(max(36, min(68, round(body.width * 0.42))))
    else:
        lesson, rest = body.split_horizontal(max(7, body.height // 2))
    return lesson, rest


def beside_a_lesson(body: Region, extras: Collection[str], watch: str) -> dict[str, Region]:
    """One column: the grid, and under it as many others as have room, the watched one first to be chosen."""
    asked = [name for name in ("text", "table", "decision") if name in extras]
    order = [name for name in (watch, "sequences", *asked, "log", "pressure") if name not in ("", "grid", "headline")]
    least, largest = PANEL_LINES
    places = min(MOST_PANELS, (body.height - GRID_LINES) // least)
    if places < 1:
        places = int(body.height >= 9)
    chosen = list(dict.fromkeys(order))[:places]
    height = min(largest, max(5, (body.height - GRID_LINES) // max(1, places)))
    regions = {"grid": Region(body.x, body.y, body.width, body.height - height * len(chosen))}
    y = regions["grid"].bottom
    for name in ("sequences", "table", "text", "decision", "log", "pressure"):
        if name in chosen:
            regions[name] = Region(body.x, y, body.width, height)
            y += height
    return regions
