"""The screens over watched servers on a pinned terminal: servers of the test's own, waited for, read as text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from kvtop.app.shell import ShellSettings
from kvtop.app.watch.app import WatchApp
from kvtop.attach.fleet import Fleet
from kvtop.attach.targets import distinct, parse_target
from kvtop.view.slo import parse_slo

LIMITS = parse_slo("ttft<1 inter_token<0.1")


@asynccontextmanager
async def watching(
    *addresses: str, size: tuple[int, int] = (120, 36), interval_s: float = 0.05, timeout_s: float = 5.0
) -> AsyncIterator[tuple[WatchApp, Pilot[None]]]:
    """The app over these servers, running headless."""
    fleet = Fleet(distinct(parse_target(address) for address in addresses), interval_s, timeout_s)
    fleet.start()
    app = WatchApp(fleet, LIMITS, ShellSettings(frames_per_second=30))
    try:
        async with app.run_test(size=size, notifications=True) as pilot:
            yield app, pilot
    finally:
        fleet.close()


def shown(app: WatchApp) -> str:
    """The screen as lines of text."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


async def until(app: WatchApp, holds: Callable[[], bool], timeout_s: float = 8.0) -> None:
    """Wait for it to come about."""
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end, f"it never came about:\n{shown(app)}"
        await asyncio.sleep(0.02)


async def until_shown(app: WatchApp, *words: str, timeout_s: float = 8.0) -> str:
    """Wait until all these words are on the screen; the screen."""

    def holds() -> bool:
        return all(word in shown(app) for word in words)

    await until(app, holds, timeout_s)
    return shown(app)


def line_with(app: WatchApp, word: str) -> str:
    """The first line that holds a word."""
    return next((line for line in shown(app).splitlines() if word in line), "")


def styles_of(app: WatchApp, word: str) -> Sequence[object]:
    """The colours of a word, wherever it stands."""
    return [
        segment.style.color
        for strip in app.screen._compositor.render_strips()
        for segment in strip
        if word in segment.text and segment.style is not None
    ]
