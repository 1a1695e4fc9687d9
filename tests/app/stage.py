"""The app on a pinned terminal, and what is painted on it: characters and styles, cell by cell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rich.cells import get_character_cell_size
from rich.style import Style
from textual.app import App
from textual.pilot import Pilot

from kvtop.app.app import AppSettings, KvtopApp
from kvtop.app.grid.shape import Shape
from tests.app.feed import SteppedSource

Painted = list[list[tuple[str, Style]]]


def make_app(source: SteppedSource, settings: AppSettings | None = None) -> KvtopApp:
    app = KvtopApp(source, settings or AppSettings())
    app._tick_s = 3600.0  # frames are drawn when the test says so
    app.scene.clock = lambda: source.clock_s
    app.feed._clock = lambda: 0.0
    app.feed._heard_s = app.feed._started_s = 0.0
    return app


@asynccontextmanager
async def on_stage(
    source: SteppedSource, size: tuple[int, int] = (120, 36), settings: AppSettings | None = None
) -> AsyncIterator[tuple[KvtopApp, Pilot[None]]]:
    """The app, running headless, with everything ``source`` has said so far on the screen."""
    app = make_app(source, settings)
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(app, pilot)
        yield app, pilot


async def settle(app: KvtopApp, pilot: Pilot[None]) -> None:
    """Take over all news and paint it; what flashed has gone out."""
    while app.feed.poll():
        pass
    app.live.redraw()
    await pilot.pause()
    app.live.redraw()
    await pilot.pause()


def painted(app: App[None]) -> Painted:
    """Rows of (character, style); a wide character is followed by an empty one."""
    rows: Painted = []
    for strip in app.screen._compositor.render_strips():
        row: list[tuple[str, Style]] = []
        for segment in strip:
            style = segment.style or Style()
            for char in segment.text:
                cells = get_character_cell_size(char)
                if cells:
                    row += [(char, style)] + [("", style)] * (cells - 1)
                else:  # a combining mark belongs to the cell before
                    row[-1] = (row[-1][0] + char, style)
        rows.append(row)
    return rows


def shape_of(app: KvtopApp) -> Shape:
    """How the pool lies on the screen."""
    shape = app.live.grid.shape
    assert shape is not None
    return shape


def text(app: App[None]) -> str:
    """The screen as lines of text."""
    return "\n".join("".join(char for char, _ in row) for row in painted(app))
