"""Any terminal size, and any change of it, leaves a whole screen."""

from __future__ import annotations

import re

import pytest

from kvtop.app.arrangement import arrange
from kvtop.settings import EngineSettings
from tests.app.feed import story
from tests.app.stage import on_stage, painted, settle, text


@pytest.mark.parametrize("size", [(1, 1), (12, 6), (40, 12), (60, 20), (80, 24), (120, 36), (200, 50), (300, 100)])
@pytest.mark.parametrize("extras", [(), ("decision",), ("table",), ("text",), ("decision", "table", "text")])
def test_panels_cover_the_screen_without_overlap(size: tuple[int, int], extras: tuple[str, ...]) -> None:
    width, height = size
    seen: set[tuple[int, int]] = set()
    for region in arrange(width, height, extras).values():
        cells = {(x, y) for y in region.line_range for x in region.column_range}
        assert not cells & seen
        seen |= cells
    assert len(seen) == width * height


@pytest.mark.parametrize("width", range(20, 301, 7))
def test_the_grid_is_always_there_and_panels_go_from_the_right_then_from_below(width: int) -> None:
    for height in range(5, 101, 3):
        regions = arrange(width, height)
        assert regions["grid"].width >= 10 and regions["grid"].height >= 3
        if "block" in regions:
            assert {"sequences", "log", "pressure"} <= set(regions)
        if "log" in regions:
            assert "sequences" in regions


@pytest.mark.parametrize("size", [(40, 12), (60, 20), (80, 24), (120, 36), (200, 50), (300, 100)])
async def test_every_size_shows_owners_and_what_matters_most(size: tuple[int, int]) -> None:
    source = story(num_blocks=96, requests=10)
    source.run(40)
    async with on_stage(source, size) as (app, _):
        lines = text(app).splitlines()
        assert len(lines) == size[1] and all(len(line) == size[0] for line in lines)
        assert "active" in lines[1] and "step 40" in lines[0] and "q quit" in lines[-1]
        grid = app.live.grid.region
        letters = {char for row in painted(app)[grid.y + 1 : grid.bottom - 1] for char, _ in row}
        assert letters & set("ABCDEFGHIJ")


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_a_reservation_names_itself_and_its_waste(size: tuple[int, int]) -> None:
    settings = EngineSettings(num_blocks=600, policy="reserve-prompt-max-tokens", prefix_cache=False)
    source = story(requests=10, settings=settings)
    source.run(40)
    async with on_stage(source, size) as (app, _):
        lines = text(app).splitlines()
        assert "reserve-prompt-max-tokens" in lines[0] and "simulated" in lines[0]
        assert re.search(r"waste \d", lines[1])


async def test_swap_without_space_is_marked_as_such() -> None:
    source = story(requests=2, settings=EngineSettings(num_blocks=96, preempt="swap"))
    source.run(1)
    async with on_stage(source) as (app, _):
        assert "· swap without space, newest" in text(app).splitlines()[0]


async def test_sixty_resizes_leave_no_cell_behind() -> None:
    source = story(num_blocks=96, requests=10)
    source.run(40)
    async with on_stage(source, (120, 36)) as (app, pilot):
        for i in range(60):
            await pilot.resize_terminal(40 + (i * 37) % 200, 10 + (i * 13) % 60)
        await pilot.resize_terminal(120, 36)
        await settle(app, pilot)
        after = text(app)
    async with on_stage(story_again(), (120, 36)) as (app, _):
        assert after == text(app)


def story_again():
    source = story(num_blocks=96, requests=10)
    source.run(40)
    return source
