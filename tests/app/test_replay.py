"""A recording on the dashboard: it plays, stands, steps and says what it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from kvtop.app.app import AppSettings, KvtopApp
from kvtop.sources.recording import Recording
from kvtop.sources.replay import ReplaySource
from tests.app.stage import settle, text
from tests.commands.test_events import record
from tests.sources.traffic import VirtualClock, batches, simulated_engine


class Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def source(tmp_path: Path, clock: Clock) -> ReplaySource:
    return ReplaySource(Recording(record(tmp_path / "a.kvrec", batches(120))), start_step=60, clock=clock)


@asynccontextmanager
async def on_stage(source: ReplaySource) -> AsyncIterator[tuple[KvtopApp, Pilot[None]]]:
    source.start()
    app = KvtopApp(source, AppSettings())
    app._tick_s = 3600.0  # frames are drawn when the test says so
    async with app.run_test(size=(150, 50), notifications=True) as pilot:
        await settle(app, pilot)
        yield app, pilot
    source.close()


def top(app: KvtopApp) -> str:
    return text(app).splitlines()[0]


async def test_space_plays_a_paused_recording_and_pauses_a_playing_one(source: ReplaySource, clock: Clock) -> None:
    async with on_stage(source) as (app, pilot):
        assert all(words in top(app) for words in ("recording", "paused", "step 60 of 120"))
        await pilot.press("space")
        await settle(app, pilot)
        assert "plays" in top(app)
        clock.now += 0.5
        await settle(app, pilot)
        assert app.feed.live.step > 70
        await pilot.press("space")
        clock.now += 5
        await settle(app, pilot)
        assert "paused" in top(app)
        assert f"step {app.feed.live.step} of 120" in top(app)


async def test_comma_and_full_stop_step_it_and_the_decision_path_is_shown_where_it_stands(
    source: ReplaySource,
) -> None:
    async with on_stage(source) as (app, pilot):
        for key, step in (("comma", 59), ("comma", 58), ("full_stop", 59)):
            await pilot.press(key)
            await settle(app, pilot)
            assert f"step {step} of 120" in top(app)
        assert "decision" in app.live._panels.in_sight()


async def test_what_would_change_the_engine_is_refused_with_a_word(source: ReplaySource) -> None:
    async with on_stage(source) as (app, pilot):
        app.live.select(next(iter(app.feed.live.sequences)))
        await pilot.press("a", "enter")
        await settle(app, pilot)
        assert "this is a recording" in text(app)


@pytest.mark.parametrize("key", ["i", "O", "p", "a", "C", "left_square_bracket"])
async def test_a_key_that_would_change_an_engine_is_answered_at_once_and_not_offered(
    source: ReplaySource, key: str
) -> None:
    async with on_stage(source) as (app, pilot):
        footer = text(app).splitlines()[-1]
        assert "step" in footer and not any(word in footer for word in ("inject", "preempt", "abort"))
        app.live.select(next(iter(app.feed.live.sequences)))
        await pilot.press(key)
        await settle(app, pilot)
        assert app.screen is app.live
        said = [str(note.message) for note in app._notifications]
        assert said == ["this is a recording: what happened in it cannot be changed"]


async def test_a_recording_in_which_nothing_has_arrived_does_not_say_send_requests(
    tmp_path: Path, clock: Clock
) -> None:
    engine = simulated_engine(VirtualClock())
    first = engine.step()
    assert first is not None
    path = record(tmp_path / "empty.kvrec", [first])
    async with on_stage(ReplaySource(Recording(path), clock=clock)) as (app, _pilot):
        assert "No traffic yet" in text(app) and "send requests" not in text(app)


async def test_g_goes_to_a_step_and_stands_there_and_says_what_there_is(source: ReplaySource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("space")
        await settle(app, pilot)
        await pilot.press("g", *"121")
        await pilot.pause()
        assert "step 121 is not among 1 to 120" in text(app) and "steps 1 to 120 can be shown" in text(app)
        await pilot.press("enter")
        assert "go to a step" in text(app)
        await pilot.press(*["backspace"] * 3, *"17", "enter")
        await settle(app, pilot)
        assert "paused" in top(app) and "step 17 of 120" in top(app) and app.feed.live.step == 17


async def test_stepping_back_stops_a_recording_that_plays(source: ReplaySource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("space", "comma")
        await settle(app, pilot)
        assert "paused" in top(app) and "step 59 of 120" in top(app)
