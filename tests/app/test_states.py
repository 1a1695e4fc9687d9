"""Every state the engine can be in has a face: loading, empty, paused, dead, silent, with a gap."""

from __future__ import annotations

from itertools import count

import pytest

from kvtop.engine import control
from kvtop.engine.control import BatchMessage
from kvtop.settings import EngineSettings
from tests.app.feed import SteppedSource, story
from tests.app.stage import on_stage, settle, text


def loading() -> SteppedSource:
    source = SteppedSource(EngineSettings(num_blocks=96), loading=True)
    source.say("loading", "reading weights of SmolLM2", done=93_000_000, total=270_000_000)
    return source


async def test_while_the_model_loads_there_is_a_frame_with_progress_and_a_way_out() -> None:
    source = loading()
    async with on_stage(source) as (app, pilot):
        shown = text(app)
        assert "reading weights of SmolLM2" in shown and "34%" in shown and "esc cancel" in shown
        assert "active –" in shown and "step –" in shown and "0%" not in shown.splitlines()[1]
        source.ready()
        await settle(app, pilot)
        assert "reading weights" not in text(app) and "96 blocks" in text(app)


@pytest.mark.parametrize(("size", "whole"), [((120, 36), True), ((80, 24), False)])
async def test_an_empty_pool_says_what_it_is_good_for_where_there_is_room(size: tuple[int, int], whole: bool) -> None:
    source = SteppedSource(EngineSettings(num_blocks=1_024))
    async with on_stage(source, size) as (app, _):
        shown = " ".join(text(app).replace("│", " ").split())
        assert "1,024 blocks of 16 tokens" in shown and "i send requests" in shown and "what everything means" in shown
        assert ("at most 2 requests of max_model_len" in shown) == whole
        assert ("in blocks of 32 tokens it would be 512 blocks" in shown) == whole


async def test_escape_cancels_loading_with_exit_130() -> None:
    async with on_stage(loading()) as (app, pilot):
        await pilot.press("escape")
        await pilot.pause()
    assert app.return_code == 130


async def test_requests_sent_while_the_model_loads_go_out_when_it_is_ready() -> None:
    source = loading()
    async with on_stage(source) as (app, pilot):
        for _ in range(2):
            await pilot.press("i", *"qp", "enter")
        await settle(app, pilot)
        assert not source.sent and "2 requests will go out when it is ready" in text(app)
        source.ready()
        await settle(app, pilot)
        (inject,) = source.sent
        assert isinstance(inject, control.Inject)
        assert [(request.id, request.prompt) for request in inject.requests] == [("req-1", "qp"), ("req-2", "qp")]
        assert len(app.scene.view.sequences) == 2 and not app.feed.held


async def test_an_empty_pool_says_how_to_fill_it() -> None:
    async with on_stage(SteppedSource(EngineSettings(num_blocks=96))) as (app, pilot):
        assert "No traffic yet" in text(app) and "i send requests" in text(app)
        await pilot.press("i", "enter")
        await settle(app, pilot)
        assert "No traffic yet" not in text(app)


async def test_a_dead_engine_leaves_its_last_state_its_traceback_and_a_restart() -> None:
    source = story(96)
    source.run(40)
    async with on_stage(source) as (app, pilot):
        source.say(
            "failed", "out of memory", traceback="Traceback\n  line 7 [red]in[/red] step\nRuntimeError: out of memory"
        )
        await settle(app, pilot)
        shown = text(app)
        assert "the engine died" in shown and "out of memory" in shown and "step 40" in shown
        await pilot.press("T")
        await pilot.pause()
        assert "line 7 [red]in[/red] step" in text(app)
        await pilot.press("escape", "r")
        await settle(app, pilot)
        assert source.restarts == 1
        assert "the engine died" not in text(app) and "No traffic yet" in text(app)


async def test_restart_is_for_dead_engines_only() -> None:
    source = story(96)
    async with on_stage(source) as (_, pilot):
        await pilot.press("r")
    assert source.restarts == 0


async def test_a_long_step_of_a_living_engine_is_no_bad_news() -> None:
    source = story(96)
    source.run(5)
    async with on_stage(source) as (app, pilot):
        assert "computing" not in text(app)
        app.feed._heard_s -= 6
        app.live.redraw()
        await pilot.pause()
        assert "▶ computing, 6 s" in text(app) and "no word" not in text(app)
        source.run(1)
        await settle(app, pilot)
        assert "▶ running" in text(app)


@pytest.mark.parametrize(("alive", "silent_s"), [(False, 7), (True, 75)])
async def test_silence_is_shown_with_its_age_when_the_process_is_gone_or_it_lasts(alive: bool, silent_s: int) -> None:
    source = story(96)
    source.run(5)
    async with on_stage(source) as (app, pilot):
        source.alive = alive
        app.feed._heard_s -= silent_s
        app.live.redraw()
        await pilot.pause()
        assert f"no word for {silent_s} s" in text(app) and "computing" not in text(app)


async def test_the_clock_may_go_on_in_the_midst_of_a_frame() -> None:
    """A step is told as such up to a minute; at ten frames a second some frame is drawn at that very moment."""
    source = story(96)
    source.run(5)
    async with on_stage(source) as (app, _):
        source.alive = True
        ticks = count(59_900)
        app.feed._heard_s, app.feed._clock = 0.0, lambda: next(ticks) / 1_000
        shown = set()
        for _ in range(200):
            app.live.redraw()
            shown.add(text(app).splitlines()[0].split("  step")[0][-20:].strip())
        assert any("computing" in words for words in shown) and any("no word for 60 s" in words for words in shown)


@pytest.mark.parametrize("state", ["paused", "idle"])
async def test_an_engine_with_nothing_to_say_may_be_silent(state) -> None:
    source = story(96)
    source.run(5)
    source.say(state)
    async with on_stage(source) as (app, pilot):
        app.feed._heard_s -= 500
        app.live.redraw()
        await pilot.pause()
        assert "no word" not in text(app) and "computing" not in text(app)


async def test_an_engine_between_two_arrivals_is_idle_and_says_that_more_comes() -> None:
    source = story(96)
    source.run(5)
    source.say("idle", "traffic to come")
    async with on_stage(source) as (app, pilot):
        assert "◦ idle, traffic to come" in text(app)
        source.say("idle")
        await settle(app, pilot)
        assert "◦ idle" in text(app) and "idle," not in text(app)


async def test_a_missed_batch_is_shown_and_a_snapshot_is_asked_for_once() -> None:
    source = story(96)
    source.run(5)
    async with on_stage(source) as (app, pilot):
        source.run(3)
        lost = next(i for i, message in enumerate(source.messages) if isinstance(message, BatchMessage))
        del source.messages[lost]
        app.feed.poll()
        asked = [sent for sent in source.sent if isinstance(sent, control.TakeSnapshot)]
        assert len(asked) == 1 and app.scene.view.incomplete_since is not None
        app.live.redraw()
        await pilot.pause()
        assert "incomplete since event" in text(app)
        await settle(app, pilot)
        assert app.scene.view.incomplete_since is None and "incomplete since" not in text(app)
        assert app.scene.view.step == 8


async def test_while_something_loads_that_prints_its_last_lines_are_in_sight_and_clean() -> None:
    source = loading()
    source.say("loading", "loading weights", traceback="first\nsecond\n\x1b[31mthird [b]\nfourth\nloading weights")
    async with on_stage(source) as (app, pilot):
        await settle(app, pilot)
        shown = text(app)
        assert shown.index("second") < shown.index("␛[31mthird [b]") < shown.index("fourth") < shown.index("◐ loading")
        assert "first" not in shown and shown.count("loading weights") == 1
        await pilot.press("T")
        await pilot.pause()
        assert "first" in text(app)


async def test_what_goes_wrong_with_a_command_that_nobody_waits_for_is_said() -> None:
    source = story(96)
    async with on_stage(source) as (app, pilot):
        source.messages.append(control.Reply(ticket=0, error="req-9: HTTP 400: too [b]long"))
        await settle(app, pilot)
        app.live.tick(True)
        await settle(app, pilot)
        assert "req-9: HTTP 400: too [b]long" in text(app)
