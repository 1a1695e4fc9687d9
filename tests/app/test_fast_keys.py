"""Keys that arrive in one write act one after another: each goes to what has the focus when its turn comes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from textual import events
from textual.pilot import Pilot

from kvtop.app import key_order
from kvtop.app.app import KvtopApp
from kvtop.engine import control
from tests.app.feed import SteppedSource, story
from tests.app.stage import on_stage, settle, text


@pytest.fixture
def source() -> SteppedSource:
    told = story(num_blocks=96, requests=20)
    told.run(60)
    return told


async def until_done(app: KvtopApp, pilot: Pilot[None]) -> None:
    await pilot.pause()
    for _ in range(100):
        if not app._key_order.busy:
            break
        await pilot.pause(0.05)
    await pilot.pause()


async def write_at_once(app: KvtopApp, pilot: Pilot[None], *keys: str) -> None:
    """All keys before the app has looked at the first."""
    for key in keys:
        app.post_message(events.Key(key, key if len(key) == 1 else None))
    await until_done(app, pilot)
    await settle(app, pilot)


async def test_a_burst_fills_the_fields_it_goes_through(source: SteppedSource) -> None:
    async with on_stage(source, (120, 44)) as (app, pilot):
        clear = ("ctrl+a", "ctrl+k")
        await write_at_once(
            app, pilot, "i", *["tab"] * 3, *clear, "7", "tab", "tab", *clear, *"33", "tab", *clear, "4", "enter"
        )
        inject = source.sent[-1]
        assert isinstance(inject, control.Inject)
        assert len(inject.requests) == 7
        assert {(request.max_tokens, request.n) for request in inject.requests} == {(33, 4)}


async def test_a_burst_reaches_the_menu_it_opened_and_the_form_behind_it(source: SteppedSource) -> None:
    async with on_stage(source, (120, 44)) as (app, pilot):
        await write_at_once(app, pilot, "i", "f2", "down", "down", "enter", "enter")
        inject = source.sent[-1]
        assert isinstance(inject, control.Inject) and len(inject.requests) == 12


async def test_a_burst_types_into_the_filter_and_acts_on_what_it_leaves(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await write_at_once(app, pilot, "slash", *"req-19", "enter", "down", "p")
        assert app.scene.filter == "req-19" and app.scene.selected is not None
        assert "req-19" in app.scene.view.sequences[app.scene.selected].name
        assert "Preempt req-19" in text(app) or "nothing to preempt" in text(app)


async def test_a_paste_in_a_burst_goes_to_the_field_that_the_key_before_it_opened(source: SteppedSource) -> None:
    async with on_stage(source, (120, 44)) as (app, pilot):
        app.post_message(events.Key("i", "i"))
        app.post_message(events.Paste("page table"))
        await until_done(app, pilot)
        assert app.live.form_values["prompt"] == "page table"


async def test_a_widget_that_never_hands_the_turn_on_holds_the_keys_up_for_a_moment_only(
    source: SteppedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Textual drops what a widget had still to do when it goes; then nothing but the clock starts the next key."""
    monkeypatch.setattr(key_order, "LONGEST_WAIT_S", 0.2)
    async with on_stage(source) as (app, pilot):
        await pilot.press("tab")
        kept = app.live.sequences.call_later

        def drop_turns(callback: Callable[..., object], *given: object) -> bool:
            return getattr(callback, "__name__", "") == "_pass" or kept(callback, *given)

        monkeypatch.setattr(app.live.sequences, "call_later", drop_turns)
        for key in ("down", "space", "t"):
            app.post_message(events.Key(key, None))
        await until_done(app, pilot)
        assert isinstance(source.sent[-1], control.Pause) and "theme" in text(app)


@pytest.mark.parametrize("seed", range(3))
async def test_no_burst_of_keys_needs_the_clock_to_go_on(
    source: SteppedSource, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Dialogs that open and close under the keys, tabs, focus: every turn is handed on by what the key did."""
    monkeypatch.setattr(key_order, "LONGEST_WAIT_S", 1_000.0)
    draw = random.Random(seed)
    keys = ["i", "escape", "enter", "tab", "shift+tab", "down", "up", "t", "B", "e", "g", "w", "O", "question_mark",
            "2", "3", "5", "1", "s", "b", "d", "slash", "a", "n", "space", "comma", "f2", "x", "o", "z"]  # fmt: skip
    async with on_stage(source) as (app, pilot):
        for _ in range(3):
            for key in draw.choices(keys, k=25):
                app.post_message(events.Key(key, key if len(key) == 1 else None))
            await until_done(app, pilot)
            assert not app._key_order.busy
