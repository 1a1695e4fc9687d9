"""What is painted is what is: cells read back from the screen against the engine's own tables."""

from __future__ import annotations

import pytest

from kvtop.app.app import KvtopApp
from kvtop.app.grid.shape import Zoom
from kvtop.app.palette import ACTIVE, CACHED, FREE, Cell
from kvtop.engine.scheduler import Scheduler
from kvtop.engine.sequences import Sequence
from kvtop.view.owner_slots import glyph
from tests.app.feed import story
from tests.app.stage import on_stage, painted, settle, shape_of


def holders(scheduler: Scheduler) -> dict[int, list[Sequence]]:
    """Block → the sequences whose tables hold it, from the engine's tables."""
    found: dict[int, list[Sequence]] = {}
    for group in scheduler.roster.groups.values():
        for sequence in group.live:
            for block in sequence.table.block_ids:
                found.setdefault(block, []).append(sequence)
    return found


def painted_block(app: KvtopApp, block: int):
    """Character and style in the first cell of a block."""
    shape, region = shape_of(app), app.live.grid.region
    row, column = divmod(block, shape.columns)
    y = region.y + 1 + row * shape.cell_height
    return painted(app)[y][region.x + 1 + shape.gutter + column * shape.cell_width]


@pytest.mark.parametrize("zoom", [Zoom.TILE, Zoom.WIDE, Zoom.CELL])
async def test_at_every_step_each_painted_cell_names_an_owner_that_holds_the_block(zoom: Zoom) -> None:
    source = story(num_blocks=96, requests=10)
    block_size = source.settings.block_size
    source.run(60)
    checked = 0
    async with on_stage(source, (120, 44)) as (app, pilot):
        app.scene.zoom = zoom
        for _ in range(12):
            source.run(1)
            await settle(app, pilot)
            cells = painted(app)
            region, shape = app.live.grid.region, shape_of(app)
            scheduler = source.engine.scheduler
            owners = holders(scheduler)
            assert shape.zoom == zoom
            for block in range(96):
                row, column = divmod(block, shape.columns)
                y = region.y + 1 + row * shape.cell_height
                char, style = cells[y][region.x + 1 + shape.gutter + column * shape.cell_width]
                sequences = owners.get(block, [])
                if not sequences:
                    slot = app.scene.view.slots.slot_of(int(app.scene.view.blocks.owners[block]))
                    cached = app.scene.palette.cell(Cell(CACHED, slot))
                    assert (char, style) in {("·", app.scene.palette.cell(Cell(FREE))), (glyph(slot), cached)}
                    continue
                expected = set()
                for sequence in sequences:
                    index = sequence.table.block_ids.index(block)
                    slots = max(0, min(block_size, sequence.computed - index * block_size))
                    slot = app.scene.view.slots.slot_of(sequence.seq)
                    cell = Cell(ACTIVE, slot, 1 + 6 * slots // block_size, shared=len(sequences) > 1)
                    expected.add((glyph(slot), app.scene.palette.cell(cell)))
                assert (char, style) in expected, f"block {block} at step {app.scene.view.step}"
                checked += 1
    assert checked > 500 and source.engine.scheduler.counters.preemptions > 0


async def test_a_freed_block_is_painted_free_and_a_cached_one_keeps_its_last_owner() -> None:
    source = story(num_blocks=96, requests=2)
    async with on_stage(source, (120, 44)) as (app, pilot):
        while source.engine.has_work:
            source.run(20)
        await settle(app, pilot)
        blocks = app.scene.view.blocks
        assert blocks.active == 0 and blocks.cached > 0 and blocks.free > 0
        for block in range(96):
            char, _ = painted_block(app, block)
            assert (char == "·") == (blocks.hashes[block] == 0)
