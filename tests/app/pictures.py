"""What the picture tests share: a story that runs, and a screen made ready for its picture."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from textual.pilot import Pilot
from textual.widgets import Input

from kvtop.app.app import KvtopApp
from tests.app.feed import SteppedSource, story
from tests.app.stage import settle, text

Compare = Callable[..., bool]
SIZES = [(200, 50), (120, 36), (80, 24), (60, 20)]
BOTH_SIZES = [(120, 36), (80, 24)]
WORDS = ("kvtop", "POOL", "active", "pool", "q quit")


def running(num_blocks: int = 192, steps: int = 120) -> SteppedSource:
    source = story(num_blocks, 20)
    source.run(steps)
    return source


def prepared(
    app: KvtopApp, words: tuple[str, ...], keys: tuple[str, ...] = ()
) -> Callable[[Pilot[None]], Awaitable[None]]:
    """Before the picture: everything on the screen, keys pressed, words found."""

    async def run(pilot: Pilot[None]) -> None:
        await settle(app, pilot)
        if keys:
            await pilot.press(*keys)
            for field in app.screen.query(Input):
                field.cursor_blink = False
            await settle(app, pilot)
        shown = text(app)
        for word in words:
            assert word in shown, word

    return run
