"""Stepping the view back through what was recorded: the same frames, exactly, and the engine none the wiser."""

from __future__ import annotations

import numpy as np

from kvtop.app.app import AppSettings
from tests.app.feed import SteppedSource, story
from tests.app.stage import on_stage, settle, text


def paused_at(step: int) -> SteppedSource:
    """A story that was paused after each of its last steps, so that all of it is recorded."""
    source = story(96, 12)
    source.run(step)
    return source


async def test_comma_shows_each_step_as_it_was_and_full_stop_comes_forward_again() -> None:
    source = paused_at(30)
    async with on_stage(source, settings=AppSettings(history=source.history)) as (app, pilot):
        pictures = {}
        await pilot.press("space")
        for _ in range(8):
            await settle(app, pilot)
            pictures[app.scene.view.step] = (text(app).splitlines()[1:26], np.array(app.scene.view.blocks.ref_counts))
            await pilot.press("full_stop")
            source.run(1)
        await settle(app, pilot)
        present = app.scene.view.step
        sent = len(source.sent)
        for step in range(present - 1, present - 8, -1):
            await pilot.press("comma")
            await settle(app, pilot)
            assert app.scene.view.step == step and app.feed.live.step == present
            assert f"view at step {step} of {present}" in text(app)
            if step in pictures:
                assert (app.scene.view.blocks.ref_counts == pictures[step][1]).all()
                assert text(app).splitlines()[2:21] == pictures[step][0][1:20]
        for step in range(present - 6, present):
            await pilot.press("full_stop")
            assert app.scene.view.step == step
        await pilot.press("full_stop")
        assert app.scene.view is app.feed.live and len(source.sent) == sent


async def test_less_than_goes_back_to_the_event_before() -> None:
    source = paused_at(120)
    async with on_stage(source, settings=AppSettings(history=source.history)) as (app, pilot):
        await pilot.press("space")
        await settle(app, pilot)
        assert app.scene.view.counters.preemptions
        await pilot.press("less_than_sign")
        assert any(type(event).__name__ == "Preempted" for event in app.scene.view.last_events)
        first = app.scene.view.step
        await pilot.press("less_than_sign")
        assert app.scene.view.step < first
        await pilot.press("greater_than_sign")
        assert app.scene.view.step == first
        await pilot.press("escape")
        assert app.scene.view is app.feed.live


async def test_where_nothing_is_recorded_it_says_so() -> None:
    async with on_stage(paused_at(10)) as (app, pilot):
        await pilot.press("comma")
        await pilot.pause(0.3)
        assert app.scene.view is app.feed.live and "nothing before this step" in text(app)


async def test_g_goes_to_any_recorded_step_and_the_last_one_is_the_present() -> None:
    source = paused_at(40)
    async with on_stage(source, settings=AppSettings(history=source.history)) as (app, pilot):
        await pilot.press("space", "g")
        await pilot.pause()
        assert "steps 0 to 40 can be shown" in text(app)
        sent = len(source.sent)
        await pilot.press(*"17", "enter")
        await settle(app, pilot)
        assert app.scene.view.step == 17 and "view at step 17 of 40" in text(app)
        assert len(source.sent) == sent
        await pilot.press("comma")
        assert app.scene.view.step == 16
        await pilot.press("g", *"40", "enter")
        assert app.scene.view is app.feed.live


async def test_a_step_that_is_no_number_is_refused_in_the_dialog() -> None:
    async with on_stage(paused_at(5)) as (app, pilot):
        await pilot.press("g", *"soon", "enter")
        await pilot.pause()
        assert "'soon' is not a step's number" in text(app) and "steps 5 to 5 can be shown" in text(app)
