"""Breakpoints pause the engine once, say why, and can be taken back; predicting hides a step until it is uncovered."""

from __future__ import annotations

import pytest

from kvtop.app.breakpoints import FreeBelow, Preemption, Written
from kvtop.engine import control
from tests.app.feed import SteppedSource, story
from tests.app.stage import on_stage, settle, text


@pytest.fixture
def source() -> SteppedSource:
    told = story(num_blocks=96, requests=20)
    told.run(2)
    return told


async def run_until_paused(source: SteppedSource, app, pilot, most: int = 300) -> int:
    for _ in range(most):
        source.run(1)
        app.feed.poll()
        if source.engine.paused:
            break
    await settle(app, pilot)
    return app.feed.live.step


async def test_it_pauses_when_blocks_run_short_and_only_once_for_each_time(source: SteppedSource) -> None:
    async with on_stage(source, (160, 44)) as (app, pilot):
        assert app.feed.breakpoints.toggle(FreeBelow(0.05), app.feed.live)
        step = await run_until_paused(source, app, pilot)
        assert source.engine.paused and app.feed.live.blocks.active > 0.95 * 96
        app.live.tick(True)
        await pilot.pause(0.2)
        assert f"breakpoint, step {step}: less than 5% of the pool can be had" in text(app)
        await pilot.press("space")
        source.run(1)
        await settle(app, pilot)
        still_short = app.feed.live.blocks.active > 0.95 * 96
        assert not (still_short and source.engine.paused)


async def test_it_pauses_when_a_sequence_is_preempted(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        app.feed.breakpoints.toggle(Preemption(0, ""), app.feed.live)
        await run_until_paused(source, app, pilot)
        assert source.engine.paused and app.feed.live.counters.preemptions > 0


async def test_it_pauses_when_a_block_is_written(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        tail = app.feed.live.with_status("running")[0].table[-1]
        app.feed.breakpoints.toggle(Written(tail, tail), app.feed.live)
        before = int(app.feed.live.blocks.written_step[tail])
        await run_until_paused(source, app, pilot)
        assert source.engine.paused and app.feed.live.blocks.written_step[tail] > before


async def test_b_offers_what_is_pointed_at_and_takes_back_what_is_set(source: SteppedSource) -> None:
    async with on_stage(source, (120, 44)) as (app, pilot):
        await pilot.press("right", "B")
        await pilot.pause()
        assert "block 0 is written or changes hands" in text(app)
        await pilot.press("end", "enter")
        assert app.feed.breakpoints.active == [Written(0, 0)]
        await pilot.press("B", "end", "enter")
        assert app.feed.breakpoints.active == []


async def test_while_predicting_a_step_shows_nothing_until_u_uncovers_it(source: SteppedSource) -> None:
    source.run(60)
    async with on_stage(source) as (app, pilot):
        await pilot.press("space", "P")
        await settle(app, pilot)
        await pilot.press("greater_than_sign")
        source.run(80)
        await settle(app, pilot)
        assert app.feed.live.step > app.scene.view.step == 62
        assert "What will the scheduler do?" in text(app) and "what comes next?" in text(app)
        assert "the victim" not in text(app)
        await pilot.press("u")
        await settle(app, pilot)
        assert app.scene.view is app.feed.live and "the victim, by rule newest?" in text(app)
        assert sum(isinstance(sent, control.Step) for sent in source.sent) == 1
