"""Every screen as a picture, at four sizes; each is also asked for its words, since a blank picture would pass."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from kvtop.app.app import AppSettings
from kvtop.app.breakpoints import FreeBelow
from tests.app.pictures import SIZES, WORDS, Compare, prepared, running
from tests.app.stage import make_app


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_live(size: tuple[int, int], theme: str, snap_compare: Compare) -> None:
    app = make_app(running(), AppSettings(theme=theme))
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, (*WORDS, "decode", "req-")))


@pytest.mark.parametrize("theme", ["high-contrast", "colour-blind", "monochrome"])
def test_themes(theme: str, snap_compare: Compare) -> None:
    app = make_app(running(), AppSettings(theme=theme))
    assert snap_compare(app, terminal_size=(120, 36), run_before=prepared(app, (*WORDS, "decode", "req-")))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (("2", "down", "down"), ("going on", "life of", "blocks it held", "▌", "now")),
        (("3", "down"), ("prefix tree", "sharing saves", "held by", "▌")),
        (("5",), ("findings", "→", "since step")),
    ],
    ids=["requests", "prefix", "findings"],
)
def test_tabs(keys: tuple[str, ...], words: tuple[str, ...], size: tuple[int, int], snap_compare: Compare) -> None:
    source = running(64, 160)
    app = make_app(source)

    async def watch(pilot: Pilot[None]) -> None:
        for _ in range(10):
            source.run(20)
            app.feed.poll()
            app.live.tick(True)
            if app.feed.findings.standing:
                break
        await prepared(app, ("kvtop", "POOL", *words), keys)(pilot)

    assert snap_compare(app, terminal_size=size, run_before=watch)


SCREENS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "selected": (("tab", "down", "down"), (*WORDS, "▌")),
    "cursor": (("end", "left", "left"), (*WORDS, "slots")),
    "block-table": (("tab", "down", "b"), ("block table of", "0 → ", "1 → ")),
    "text": (("tab", "down", "s"), ("text of", "asked: in the block table of")),
    "inject": (("i",), ("inject requests", "needs", "workload file")),
    "presets": (("i", "f2", "down"), ("presets", "burst", "24 × 96 tokens", "pressure until preemption")),
    "settings": (("O", *"0.25"), ("settings of the running engine", "victim", "watermark: 0.0 → 0.25")),
    "help": (("question_mark",), ("The pool. One cell is one block",)),
    "why": (("tab", "down", "w"), ("why",)),
    "preempt": (("tab", "down", "p"), ("Preempt req-", "computes", "leave it")),
    "theme": (("t", "down"), ("theme", "high-contrast", "colour-blind", "monochrome")),
    "event-kinds": (("e",), ("run to the next …", "preempted", "a sequence loses its blocks")),
    "breakpoints": (("right", "B", "down"), ("pause when", "less than 5% of the pool", "block 0 is written", "set")),
    "go-to": (("g",), ("go to a step", "can be shown")),
    "filter": (("slash", *"req-1"), ("req-1", "POOL")),
}
"""Screen → the keys that lead there, the words that stand there at every size."""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("screen", SCREENS)
def test_screens(screen: str, size: tuple[int, int], snap_compare: Compare) -> None:
    keys, words = SCREENS[screen]
    source = running()
    app = make_app(source, AppSettings(history=source.history))
    if screen == "breakpoints":
        app.feed.breakpoints.toggle(FreeBelow(0.05), app.feed.live)
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, words, keys))


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
def test_the_palette(size: tuple[int, int], snap_compare: Compare) -> None:
    app = make_app(running())
    words = ("clear cache", "Empty the prefix cache")
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, words, ("ctrl+p", *"clear")))


@pytest.mark.parametrize("mode", ["refs", "age", "fill", "sharing"])
def test_what_the_grid_s_colours_can_mean(mode: str, snap_compare: Compare) -> None:
    app = make_app(running())
    keys = ("v",) * (1 + ["refs", "age", "fill", "sharing"].index(mode))
    assert snap_compare(app, terminal_size=(120, 36), run_before=prepared(app, WORDS, keys))
