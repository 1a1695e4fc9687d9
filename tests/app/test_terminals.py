"""Terminals with few colours, or none, or a small font: readable, and owners told apart."""

from __future__ import annotations

import pytest
from rich.color import ColorType

from kvtop.app.grid.shape import Zoom
from kvtop.app.terminal import detect
from kvtop.view.colours import Depth, nearest_256
from tests.app.feed import story
from tests.app.stage import make_app, on_stage, painted, settle, shape_of, text


@pytest.mark.parametrize(
    ("environ", "color_system", "depth", "fine_marks"),
    [
        ({"TERM": "xterm-256color"}, "truecolor", Depth.TRUE, True),
        ({"TERM": "xterm-256color"}, "256", Depth.PALETTE, True),
        ({"TERM": "linux"}, "standard", Depth.ANSI, False),
        ({"TERM": "dumb"}, None, Depth.NONE, False),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "truecolor", Depth.NONE, True),
    ],
)
def test_what_the_terminal_can_show_is_found_from_the_environment(environ, color_system, depth, fine_marks) -> None:
    found = detect(environ, color_system)
    assert (found.depth, found.fine_marks) == (depth, fine_marks)


@pytest.mark.parametrize(
    ("colour", "number"), [((0, 0, 0), 16), ((255, 255, 255), 231), ((8, 8, 8), 232), ((95, 0, 255), 57)]
)
def test_the_closest_colour_of_256(colour, number) -> None:
    assert nearest_256(colour) == number


def colours_of(app) -> set[ColorType]:
    styles = [style for row in painted(app) for _, style in row]
    return {colour.type for style in styles for colour in (style.color, style.bgcolor) if colour is not None}


@pytest.mark.parametrize(("depth", "types"), [
    (Depth.PALETTE, {ColorType.EIGHT_BIT}),
    (Depth.ANSI, {ColorType.STANDARD, ColorType.DEFAULT}),
    (Depth.NONE, set()),
])  # fmt: skip
async def test_no_more_colours_are_used_than_there_are_and_every_owner_has_its_glyph(depth, types, monkeypatch) -> None:
    monkeypatch.setattr("kvtop.app.shell.detect", lambda environ, system: detect_as(depth))
    source = story(num_blocks=96, requests=10)
    source.run(40)
    async with on_stage(source) as (app, pilot):
        assert colours_of(app) <= types
        for zoom in (Zoom.WIDE, Zoom.CELL, Zoom.GROUP):
            app.scene.zoom = zoom
            await settle(app, pilot)
            shape, region = shape_of(app), app.live.grid.region
            row = painted(app)[region.y + 1]
            letters = {char for char, _ in row[region.x + 1 + shape.gutter : region.right - 1]}
            assert letters & set("ABCDEFGHIJKLMNOP")
            assert colours_of(app) <= types
        assert "q quit" in text(app)


async def test_without_room_for_colours_half_cells_are_not_offered(monkeypatch) -> None:
    monkeypatch.setattr("kvtop.app.shell.detect", lambda environ, system: detect_as(Depth.ANSI))
    source = story(num_blocks=2000, requests=10)
    source.run(10)
    async with on_stage(source, (60, 20)) as (app, pilot):
        assert shape_of(app).zoom == Zoom.GROUP
        for key in ["plus"] * 6 + ["minus"] * 6:
            await pilot.press(key)
            assert shape_of(app).zoom != Zoom.HALF


async def test_under_no_color_no_colour_reaches_the_screen(monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    source = story(num_blocks=96, requests=10)
    source.run(40)
    app = make_app(source)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(app, pilot)
        assert colours_of(app) <= {ColorType.DEFAULT}
        for key in ("i", "escape", "question_mark", "escape", "t", "escape"):
            await pilot.press(key)
            await pilot.pause()
            assert colours_of(app) <= {ColorType.DEFAULT}, key


def detect_as(depth: Depth):
    return detect({"TERM": "xterm"}, {256: "256", 16: "standard", 0: None}[int(depth)])
