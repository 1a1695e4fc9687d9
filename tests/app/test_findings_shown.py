"""The findings tab speaks of the moment that the other figures on the screen speak of."""

from __future__ import annotations

from kvtop.engine.control import Pause
from kvtop.view.figures import preemptions_per_minute
from kvtop.view.finding import Case, Rule
from kvtop.view.findings import FindingsLog
from kvtop.view.pool_view import PoolView
from tests.app.feed import START_S, story
from tests.app.stage import on_stage, settle, text


def counts_free(view: PoolView, now_s: float, held: bool) -> Case:
    return Case("note", "blocks are counted", f"{view.blocks.free} of them free at step {view.step}", "nothing")


async def test_a_finding_has_the_figures_of_the_step_at_which_the_engine_was_paused() -> None:
    source = story()
    source.run(20)
    async with on_stage(source) as (app, pilot):
        app.feed.findings = FindingsLog((Rule("count", counts_free),))
        app.live.tick(True)
        source.run(3)  # less than the half second after which all rules are asked again
        source.send(Pause())
        app.live.show_tab("findings")
        await settle(app, pilot)
        app.live.tick(True)
        await settle(app, pilot)
        view = app.scene.view
        assert f"{view.blocks.free} of them free at step {view.step}" in text(app)


async def test_what_stands_and_has_passed_is_kept_while_the_past_is_looked_at() -> None:
    source = story()
    source.run(20)
    async with on_stage(source) as (app, _pilot):
        log = app.feed.findings = FindingsLog((Rule("count", counts_free),))
        app.live.tick(True)
        (before,) = log.standing
        app.feed.freeze()
        for _ in range(3):
            source.run(40)
            app.feed.poll()
            app.live.tick(True)
        (standing,) = log.standing
        assert standing.since_step == before.since_step and standing.seen_step > before.seen_step + 40


async def test_a_rate_on_the_first_lines_is_the_finding_s_however_long_the_engine_stands_paused() -> None:
    source = story(num_blocks=96, requests=20)
    while not source.engine.scheduler.counters.preemptions or source.clock_s < START_S + 2:
        source.run()
    source.send(Pause())
    async with on_stage(source) as (app, pilot):
        app.live.tick(True)
        for _ in range(3):
            source.clock_s += 20
            await settle(app, pilot)
            rate = preemptions_per_minute(app.scene.view, app.scene.view.wall_s)
            assert rate and f"preempt {rate:.1f}/min" in text(app)
