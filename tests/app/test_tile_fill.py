"""What the zooms draw of a block's fill, and that the legend shows the same."""

from __future__ import annotations

import numpy as np
import pytest

from kvtop.app.grid.codes import block_codes
from kvtop.app.grid.ink import Ink
from kvtop.app.grid.shape import Zoom, shape_for
from kvtop.app.palette import Palette
from kvtop.app.theme_files import load_themes
from kvtop.view.blocks_view import BlocksView
from kvtop.view.colours import Depth
from kvtop.view.owner_slots import OwnerSlots
from tests.app.feed import story
from tests.app.stage import on_stage, painted


@pytest.mark.parametrize(
    ("slots", "upper", "lower"),
    [
        (0, "  ", "   "),
        (1, "  ", "▂▂▂"),
        (2, "  ", "▂▂▂"),
        (8, "  ", "███"),
        (14, "▆▆", "███"),
        (16, "  ", "   "),
    ],
)
def test_in_a_tile_the_fill_rises_over_both_lines(slots: int, upper: str, lower: str) -> None:
    blocks = BlocksView(1)
    blocks.ref_counts[0], blocks.fills[0] = 1, slots
    codes = block_codes(blocks, OwnerSlots(), 16)
    shape = shape_for(1, 20, 4, Zoom.TILE)
    ink = Ink(Palette(load_themes()[0]["dark"], Depth.TRUE), fine_marks=True)
    first, second = ink.strips(np.array(codes), shape, 0, 4)
    assert (first.text[1:3], second.text[:3]) == (upper, lower)


@pytest.mark.parametrize(
    ("refs", "shown"), [(1, "       "), (2, "     ×2"), (9, "     ×9"), (10, "    ≥10"), (64, "    ≥10")]
)
def test_a_card_says_how_many_tables_hold_its_block(refs: int, shown: str) -> None:
    blocks = BlocksView(1)
    blocks.ref_counts[0], blocks.fills[0] = refs, 16
    shape = shape_for(1, 20, 4, Zoom.CARD)
    ink = Ink(Palette(load_themes()[0]["dark"], Depth.TRUE), fine_marks=True)
    _, second, _ = ink.strips(np.array(block_codes(blocks, OwnerSlots(), 16)), shape, 0, 8)
    assert second.text[:7] == shown


async def test_the_legend_of_half_cells_has_no_letters_and_the_colours_of_the_blocks() -> None:
    source = story(96)
    source.run(40)
    async with on_stage(source) as (app, pilot):
        app.scene.zoom = Zoom.HALF
        app.live.redraw()
        await pilot.pause()
        region = app.live.grid.region
        legend = painted(app)[region.bottom - 1][region.x : region.right]
        words = "".join(char for char, _ in legend)
        assert "▀ held ▀ partly filled ▀ cached ▀ free" in words and "A held" not in words
        free = app.scene.palette.theme.colors.free
        style = legend[words.index("▀ free")][1]
        assert style.color is not None and tuple(style.color.triplet or ()) == free
