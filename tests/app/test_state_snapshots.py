"""Every state of engine and view as a picture, at two sizes; each is also asked for its words."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from kvtop.app.app import AppSettings, KvtopApp
from kvtop.app.breakpoints import Preemption
from kvtop.app.recording import RecordingSwitch
from kvtop.engine import control
from kvtop.engine.control import BatchMessage
from kvtop.engine.sequences import Status
from kvtop.settings import EngineSettings
from kvtop.sources.recording import Recording
from kvtop.sources.replay import ReplaySource
from tests.app.feed import START_S, SteppedSource, story
from tests.app.pictures import BOTH_SIZES, WORDS, Compare, prepared, running
from tests.app.stage import make_app, settle
from tests.commands.test_events import record
from tests.sources.traffic import batches

pytestmark = pytest.mark.parametrize("size", BOTH_SIZES)
Size = tuple[int, int]


def test_loading(size: Size, snap_compare: Compare) -> None:
    source = SteppedSource(EngineSettings(num_blocks=96), loading=True)
    source.say("loading", "reading weights of SmolLM2", done=93_000_000, total=270_000_000)
    app = make_app(source)
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, ("reading weights", "34%", "active –")))


def test_loading_with_requests_that_wait_for_it(size: Size, snap_compare: Compare) -> None:
    app = make_app(SteppedSource(EngineSettings(num_blocks=96), loading=True))
    words = ("1 request will go out when it is ready",)
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, words, ("i", "enter")))


def test_empty(size: Size, snap_compare: Compare) -> None:
    app = make_app(SteppedSource(EngineSettings(num_blocks=192)))
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, (*WORDS, "No traffic yet", "idle")))


def test_paused_with_the_decision_path(size: Size, snap_compare: Compare) -> None:
    source = running(64, 100)
    app = make_app(source)

    async def step(pilot: Pilot[None]) -> None:
        await prepared(app, ("POOL",), ("space", "greater_than_sign"))(pilot)
        source.run(60)
        words = ("‖ paused", "decision for")
        await prepared(app, words, ("right",))(pilot)

    assert snap_compare(app, terminal_size=size, run_before=step)


def test_predict(size: Size, snap_compare: Compare) -> None:
    source = running(64, 100)
    app = make_app(source)

    async def step(pilot: Pilot[None]) -> None:
        app.scene.predict = True
        await prepared(app, ("POOL",), ("space",))(pilot)
        await pilot.press("greater_than_sign")
        source.run(60)
        await prepared(app, ("what comes next?", "What will the scheduler do?", "u uncovers it"))(pilot)

    assert snap_compare(app, terminal_size=size, run_before=step)


def test_frozen(size: Size, snap_compare: Compare) -> None:
    source = running()
    app = make_app(source)

    async def freeze(pilot: Pilot[None]) -> None:
        await prepared(app, ("POOL",), ("z",))(pilot)
        source.run(25)
        await prepared(app, (*WORDS, "view frozen, engine at step 145"))(pilot)

    assert snap_compare(app, terminal_size=size, run_before=freeze)


def test_in_the_past(size: Size, snap_compare: Compare) -> None:
    source = running(64, 120)
    app = make_app(source, AppSettings(history=source.history))
    keys = ("space", "less_than_sign", "less_than_sign")
    words = (*WORDS, "in the past", "view at step", "of 120", "decision for")
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, words, keys))


def test_dead(size: Size, snap_compare: Compare) -> None:
    source = running()
    source.say("failed", "the engine process was killed by SIGKILL", traceback="Traceback …")
    app = make_app(source)
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, (*WORDS, "the engine died", "SIGKILL")))


def test_the_traceback_of_a_dead_engine(size: Size, snap_compare: Compare) -> None:
    source = running()
    lines = "".join(f'  File "kvtop/engine/runner.py", line {line}, in run\n' for line in range(80, 95))
    source.say(
        "failed", "out of memory", traceback=f"Traceback (most recent call last):\n{lines}RuntimeError: no [memory]"
    )
    app = make_app(source)
    words = ("what the engine said last", "Traceback (most recent call last)")
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, words, ("T",)))


def test_starting_again_after_it_died(size: Size, snap_compare: Compare) -> None:
    source = running()
    source.say("failed", "out of memory")
    app = make_app(source)

    async def restart(pilot: Pilot[None]) -> None:
        await prepared(app, (), ("r",))(pilot)
        source.messages.clear()
        app.feed.begin_again()
        await prepared(app, ("starting the engine again", "active –"))(pilot)

    assert snap_compare(app, terminal_size=size, run_before=restart)


def test_ended(size: Size, snap_compare: Compare) -> None:
    source = running()
    source.say("stopped")
    app = make_app(source)
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, (*WORDS, "the engine has ended")))


@pytest.mark.parametrize(("alive", "words"), [(True, "computing, 6 s"), (False, "no word for 6 s")])
def test_silent(size: Size, alive: bool, words: str, snap_compare: Compare) -> None:
    source = running()
    source.alive = alive
    app = make_app(source)

    async def wait(pilot: Pilot[None]) -> None:
        await settle(app, pilot)
        app.feed._heard_s -= 6
        await prepared(app, (*WORDS, words))(pilot)

    assert snap_compare(app, terminal_size=size, run_before=wait)


def test_incomplete(size: Size, snap_compare: Compare) -> None:
    source = running()
    app = make_app(source)

    async def lose(pilot: Pilot[None]) -> None:
        await settle(app, pilot)
        source.run(3)
        del source.messages[next(i for i, message in enumerate(source.messages) if isinstance(message, BatchMessage))]
        source.send = lambda command: source.sent.append(command)  # type: ignore[method-assign]
        await prepared(app, (*WORDS, "incomplete since event"))(pilot)
        assert isinstance(source.sent[-1], control.TakeSnapshot)

    assert snap_compare(app, terminal_size=size, run_before=lose)


def test_stopped_at_a_breakpoint(size: Size, snap_compare: Compare) -> None:
    source = story(96, 20)
    source.run(2)
    app = make_app(source)

    async def run(pilot: Pilot[None]) -> None:
        await settle(app, pilot)
        app.feed.breakpoints.toggle(Preemption(0, ""), app.feed.live)
        for _ in range(300):
            source.run(1)
            app.feed.poll()
            if source.engine.paused:
                break
        app.live.tick(True)
        await pilot.pause(0.2)
        await prepared(app, ("‖ paused", "breakpoint, step"))(pilot)

    assert snap_compare(app, terminal_size=size, run_before=run)


def test_recording(size: Size, snap_compare: Compare, tmp_path: Path) -> None:
    source = running()
    switch = RecordingSwitch(source.recorder, tmp_path, clock=lambda: START_S)
    app = make_app(source, AppSettings(recording=switch, history=source.history))

    async def begin(pilot: Pilot[None]) -> None:
        await settle(app, pilot)
        switch.toggle()
        source.run(5)
        await prepared(app, (*WORDS, "● "))(pilot)

    assert snap_compare(app, terminal_size=size, run_before=begin)


@pytest.mark.parametrize("plays", [False, True])
def test_replay(size: Size, plays: bool, snap_compare: Compare, tmp_path: Path) -> None:
    source = ReplaySource(Recording(record(tmp_path / "a.kvrec", batches(120))), start_step=60, clock=lambda: 0.0)
    source.start()
    app = KvtopApp(source, AppSettings())
    app._tick_s = 3600.0
    app.scene.clock = lambda: START_S
    words = ("recording", "of 120", "▶ plays" if plays else "‖ paused")
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, words, ("space",) if plays else ()))
    source.close()


def test_swapped_out(size: Size, snap_compare: Compare) -> None:
    source = story(settings=EngineSettings(num_blocks=64, max_num_seqs=12, preempt="swap", swap_memory=64 << 21))
    for _ in range(200):
        source.run(1)
        if any(sequence.status is Status.SWAPPED for sequence in source.live_sequences()):
            break
    app = make_app(source)
    assert snap_compare(app, terminal_size=size, run_before=prepared(app, (*WORDS, "swapped")))
