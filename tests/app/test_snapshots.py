"""The screen as pictures, at a pinned terminal; each is also asked for its words, since a blank picture would pass."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from kvtop.app.app import AppSettings, KvtopApp
from kvtop.app.breakpoints import FreeBelow
from kvtop.settings import EngineSettings
from tests.app.feed import SteppedSource, story
from tests.app.stage import make_app, settle, text

Compare = Callable[..., bool]
WORDS = ("kvtop", "POOL", "active", "pool", "q quit")


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


def running(num_blocks: int = 192, steps: int = 120) -> SteppedSource:
    source = story(num_blocks, 20)
    source.run(steps)
    return source


@pytest.mark.parametrize("size", [(200, 50), (120, 36), (80, 24), (60, 20)])
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_live(size: tuple[int, int], theme: str, snap_compare: Compare) -> None:
    app = make_app(running(), AppSettings(theme=theme))
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, (*WORDS, "decode", "req-")))


def test_a_sequence_is_selected(snap_compare: Compare) -> None:
    app = make_app(running())
    keys = ("tab", "down", "down")
    assert snap_compare(app, terminal_size=(120, 36), run_before=prepared(app, (*WORDS, "▌"), keys))


def test_paused_with_the_decision_path(snap_compare: Compare) -> None:
    source = running(64, 100)
    app = make_app(source)

    async def step(pilot: Pilot[None]) -> None:
        await prepared(app, WORDS, ("space", "greater_than_sign"))(pilot)
        source.run(60)
        await prepared(app, ("‖ paused", "decision for", "the victim, by rule newest?"), ("right",))(pilot)

    assert snap_compare(app, terminal_size=(120, 36), run_before=step)


@pytest.mark.parametrize("size", [(200, 50), (120, 36), (80, 24), (60, 20)])
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


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
def test_loading(size: tuple[int, int], snap_compare: Compare) -> None:
    source = SteppedSource(EngineSettings(num_blocks=96), loading=True)
    source.say("loading", "reading weights of SmolLM2", done=93_000_000, total=270_000_000)
    app = make_app(source)
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, ("reading weights", "34%", "active –")))


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
def test_empty(size: tuple[int, int], snap_compare: Compare) -> None:
    app = make_app(SteppedSource(EngineSettings(num_blocks=192)))
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, (*WORDS, "No traffic yet")))


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
def test_dead(size: tuple[int, int], snap_compare: Compare) -> None:
    source = running()
    source.say("failed", "the engine process was killed by SIGKILL", traceback="Traceback …")
    app = make_app(source)
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, (*WORDS, "the engine died", "SIGKILL")))


def test_help(snap_compare: Compare) -> None:
    app = make_app(running())
    words = ("The pool. One cell is one block", "Pause the engine between two steps")
    assert snap_compare(app, terminal_size=(120, 36), run_before=prepared(app, words, ("question_mark",)))


BOTH_SIZES = pytest.mark.parametrize("size", [(120, 36), (80, 24)])


@BOTH_SIZES
def test_inject(size: tuple[int, int], snap_compare: Compare) -> None:
    app = make_app(running())
    words = ("inject requests", "needs", "workload file")
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, words, ("i",)))


@BOTH_SIZES
def test_presets(size: tuple[int, int], snap_compare: Compare) -> None:
    app = make_app(running())
    words = (
        "presets",
        "burst",
        "24 × 96 tokens, ≤160 new",
        "12 × 160 tokens, ≤96 new, 128 shared, 2/s",
        "pressure until preemption",
    )
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, words, ("i", "f2", "down")))


@BOTH_SIZES
def test_settings(size: tuple[int, int], snap_compare: Compare) -> None:
    app = make_app(running())
    words = ("settings of the running engine", "victim", "watermark: 0.0 → 0.25")
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, words, ("O", *"0.25")))


@BOTH_SIZES
def test_breakpoints(size: tuple[int, int], snap_compare: Compare) -> None:
    app = make_app(running())
    app.feed.breakpoints.toggle(FreeBelow(0.05), app.feed.live)
    words = ("pause when", "less than 5% of the pool can be had", "block 0 is written or changes hands", "set")
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, words, ("right", "B", "down")))


@BOTH_SIZES
def test_the_block_table(size: tuple[int, int], snap_compare: Compare) -> None:
    app = make_app(running())
    words = ("block table of", "0 → ", "1 → ")
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, words, ("tab", "down", "b")))


@BOTH_SIZES
def test_predict(size: tuple[int, int], snap_compare: Compare) -> None:
    source = running(64, 100)
    app = make_app(source)

    async def step(pilot: Pilot[None]) -> None:
        app.scene.predict = True
        await prepared(app, ("POOL",), ("space",))(pilot)
        await pilot.press("greater_than_sign")
        source.run(60)
        await prepared(app, ("what comes next?", "What will the scheduler do?", "u uncovers it"))(pilot)

    assert snap_compare(app, terminal_size=size, run_before=step)
