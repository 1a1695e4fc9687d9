"""Much happens, nothing grows: a thousand sequences, ten thousand events a second, a view frozen for an hour."""

from __future__ import annotations

import time

import numpy as np

from kvtop.engine.requests import Request
from kvtop.settings import EngineSettings
from tests.app.feed import SteppedSource
from tests.app.stage import on_stage, settle, text


def crowd(sequences: int) -> SteppedSource:
    settings = EngineSettings(num_blocks=20_000, block_size=16, max_num_seqs=sequences, max_num_batched_tokens=50_000)
    source = SteppedSource(settings)
    source.inject(
        *(
            Request(id=f"r{i}", prompt_token_ids=[1 + (i + j) % 50 for j in range(30)], max_tokens=400, ignore_eos=True)
            for i in range(sequences)
        )
    )
    return source


async def test_a_thousand_sequences_and_ten_thousand_events_a_second_leave_keys_quick() -> None:
    source = crowd(1000)
    source.run(2)
    async with on_stage(source) as (app, pilot):
        waits, told = [], app.feed.live.log.total
        for key in ["right", "down", "tab", "down", "o", "up"]:
            source.run(16)  # a block more for every sequence: a thousand events, as in a tenth of a second
            started = time.process_time()
            app.tick()
            await pilot.press(key)
            waits.append(time.process_time() - started)
        events = app.feed.live.log.total - told
        assert events >= 10_000
        assert sorted(waits)[len(waits) // 2] < 0.1, waits
        await settle(app, pilot)
        assert len(app.feed.live.log.entries) <= 1_000
        assert "the last 1,000 kept" in text(app) and "1–" in text(app) and "of 1000" in text(app)


async def test_a_view_frozen_for_an_hour_keeps_nothing_and_is_exact_when_it_thaws() -> None:
    source = crowd(8)
    source.run(3)
    async with on_stage(source) as (app, pilot):
        await pilot.press("z")
        frozen = app.scene.view
        before = np.array(frozen.blocks.ref_counts)
        source.clock_s += 3600
        for _ in range(60):
            source.run(5)
            app.feed.poll()
            app.live.redraw()
        assert app.scene.view is frozen and (frozen.blocks.ref_counts == before).all()
        assert len(app.feed.live.log.entries) <= 1_000 and not source.messages
        await pilot.press("z")
        await settle(app, pilot)
        truth = np.zeros(20_000, np.int64)
        for sequence in source.live_sequences():
            np.add.at(truth, sequence.table.block_ids, 1)
        assert (app.scene.view.blocks.ref_counts == truth).all() and truth.sum() > 0


async def test_a_frame_in_which_nothing_changed_refreshes_nothing() -> None:
    source = crowd(8)
    source.run(3)
    async with on_stage(source) as (app, pilot):
        await settle(app, pilot)
        panels = list(app.live.query("Drawing"))
        for panel in panels:
            panel._repaint_regions.clear()
        app.live.redraw()
        assert not any(panel._repaint_regions for panel in panels)
