"""What the grid can show beside owners: modes, the block table, the text of a sequence."""

from __future__ import annotations

import numpy as np
import pytest

from kvtop.app.grid.shape import Zoom
from kvtop.app.grid.tones import MODES, NONE, tones
from kvtop.engine.control import Preempt
from tests.app.feed import SteppedSource, story
from tests.app.stage import on_stage, painted, settle, shape_of, text


@pytest.fixture
def source() -> SteppedSource:
    told = story(num_blocks=96, requests=12)
    told.run(60)
    return told


async def test_v_goes_through_the_modes_and_each_says_what_its_colours_mean(source: SteppedSource) -> None:
    async with on_stage(source, (160, 44)) as (app, pilot):
        legends = []
        for mode in MODES:
            assert app.scene.mode == mode
            legends.append(next(line for line in text(app).splitlines() if line.startswith("╰─")))
            await pilot.press("v")
        assert app.scene.mode == "owner" and len(set(legends)) == len(MODES)


async def test_tones_are_what_the_arrays_say(source: SteppedSource) -> None:
    async with on_stage(source) as (app, _):
        view, blocks = app.scene.view, app.scene.view.blocks
        nobody = (blocks.ref_counts == 0) & (blocks.hashes == 0)
        for mode in MODES[1:]:
            assert ((tones(view, mode) == NONE) == nobody).all(), mode
        known = ~nobody
        assert (tones(view, "refs")[known] == np.minimum(blocks.ref_counts, 7)[known]).all()
        assert (tones(view, "fill")[known] == np.minimum(blocks.fills[known] // 2, 7)).all()
        assert (tones(view, "sharing") == 3).sum() == (blocks.ref_counts > 1).sum() > 0
        age = tones(view, "age")
        assert set(age[(blocks.written_step == view.step) & known]) == {7}
        steps = view.step - np.maximum(blocks.written_step, blocks.changed_step)
        assert set(age[known & (steps >= 4) & (steps <= 7)]) <= {4}


async def test_ref_counts_stand_in_the_cells(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        app.scene.zoom = Zoom.CELL
        await pilot.press("v")
        await settle(app, pilot)
        shape, region = shape_of(app), app.live.grid.region
        row = painted(app)[region.y + 1]
        shown = [char for char, _ in row[region.x + 1 + shape.gutter :][: shape.columns]]
        blocks = app.scene.view.blocks
        for block, char in enumerate(shown):
            refs = int(blocks.ref_counts[block])
            assert char == (str(min(refs, 7)) if refs or blocks.hashes[block] else "·")


@pytest.mark.parametrize("zoom", [Zoom.CARD, Zoom.TILE, Zoom.WIDE, Zoom.CELL])
async def test_b_shows_the_selected_table_in_a_panel_and_in_the_blocks(source: SteppedSource, zoom: Zoom) -> None:
    async with on_stage(source, (160, 50)) as (app, pilot):
        app.scene.zoom = zoom
        await pilot.press("tab", "down", "b")
        await settle(app, pilot)
        row = app.scene.view.sequences[app.scene.selected or 0]
        shown = text(app)
        assert f"block table of A {row.name}" in shown
        for logical, block in enumerate(row.table):
            assert f"{logical} → {block}" in shown
        shape, region = shape_of(app), app.live.grid.region
        cells = painted(app)
        for logical, block in enumerate(row.table):
            line, column = divmod(block, shape.columns)
            y = region.y + 1 + (line - app.live.grid.first_row) * shape.cell_height
            x = region.x + 1 + shape.gutter + column * shape.cell_width
            if region.y < y < region.bottom - 1:
                written = "".join(char for char, _ in cells[y][x : x + shape.cell_width])
                assert str(logical if zoom != Zoom.CELL else logical % 10) in written
        await pilot.press("escape")
        assert "block table" not in text(app)


async def test_s_shows_the_text_as_it_comes_and_how_long_it_stands_still(source: SteppedSource) -> None:
    async with on_stage(source, (160, 50)) as (app, pilot):
        await pilot.press("tab", "down", "s")
        await settle(app, pilot)
        row = app.scene.view.sequences[app.scene.selected or 0]
        assert " ".join(row.text.split()[-3:]) in " ".join(text(app).replace("│", " ").split())
        app.live.send(Preempt(seq=row.seq))
        source.clock_s += 75
        await settle(app, pilot)
        assert "stands still for 1 min" in text(app)
