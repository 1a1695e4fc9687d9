"""What is done in the grid: move the cursor, zoom, light a block's owner. Nothing here reaches the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtop.app.actions.action import Action
from kvtop.app.grid.shape import Zoom
from kvtop.app.grid.tones import MODES
from kvtop.view.colours import Depth

if TYPE_CHECKING:
    from kvtop.app.screens.live import LiveScreen


def move(live: LiveScreen, columns: int, rows: int) -> None:
    shape, cursor = live.grid.shape, live.scene.cursor
    if shape is None:
        return
    if cursor is None:
        live.point_at(live.grid.first_row * shape.blocks_per_row)
    else:
        live.point_at(shape.moved(cursor, columns, rows))


def to_end(live: LiveScreen, end: int) -> None:
    if live.grid.shape is not None:
        live.point_at((live.grid.shape.num_blocks - 1) * end)


def page(live: LiveScreen, direction: int) -> None:
    shape = live.grid.shape
    if shape is not None:
        rows = max(1, (live.grid.size.height - 2) // shape.cell_height - 1)
        move(live, 0, direction * min(rows, max(1, shape.rows - 1)))


def light_owner(live: LiveScreen) -> None:
    view, cursor = live.scene.view, live.scene.cursor
    if cursor is None or cursor >= view.blocks.num_blocks or not view.blocks.ref_counts[cursor]:
        live.select(None)
        return
    owner = int(view.blocks.holders[cursor])
    live.select(None if live.scene.selected == owner else owner)


def zoom(live: LiveScreen, step: int) -> None:
    shape = live.grid.shape
    if shape is None:
        return
    zooms = [zoom for zoom in Zoom if zoom != Zoom.HALF or live.scene.palette.depth > Depth.ANSI]
    at = zooms.index(shape.zoom) + step
    live.scene.zoom = zooms[max(0, min(len(zooms) - 1, at))]
    live.grid.redraw()


def next_mode(live: LiveScreen) -> None:
    at = MODES.index(live.scene.mode)
    live.scene.mode = MODES[(at + 1) % len(MODES)]
    live.grid.redraw()


def fit(live: LiveScreen) -> None:
    live.scene.zoom = None
    live.grid.redraw()


GRID: tuple[Action[LiveScreen], ...] = (
    Action("left", "left,h", "One block to the left.", "grid", lambda live: move(live, -1, 0), panel="grid"),
    Action("right", "right,l", "One block to the right.", "grid", lambda live: move(live, 1, 0), panel="grid"),
    Action("up", "up,k", "One row up.", "grid", lambda live: move(live, 0, -1), panel="grid"),
    Action("down", "down,j", "One row down.", "grid", lambda live: move(live, 0, 1), panel="grid"),
    Action("page_up", "pageup", "A screenful up.", "grid", lambda live: page(live, -1), panel="grid"),
    Action("page_down", "pagedown", "A screenful down.", "grid", lambda live: page(live, 1), panel="grid"),
    Action("first_block", "home", "To block 0.", "grid", lambda live: to_end(live, 0), panel="grid"),
    Action("last_block", "end", "To the last block.", "grid", lambda live: to_end(live, 1), panel="grid"),
    Action("light_owner", "enter", "Light the blocks of the owner under the cursor; again: all.", "grid", light_owner,
           panel="grid"),
    Action("colours", "v", "What the colours mean: owner, ref count, age, fill, sharing.", "grid", next_mode),
    Action("zoom_in", "plus,equals_sign", "Larger cells.", "grid", lambda live: zoom(live, -1)),
    Action("zoom_out", "minus", "Smaller cells, down to many blocks a cell.", "grid", lambda live: zoom(live, 1)),
    Action("zoom_to_fit", "0", "The largest cells at which the whole pool is in sight.", "grid", fit),
)  # fmt: skip
