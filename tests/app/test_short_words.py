"""What does not fit is said in fewer words or on another line, and what tells least goes first."""

from __future__ import annotations

import pytest

from tests.app.feed import SteppedSource, story
from tests.app.stage import on_stage, settle, text


@pytest.fixture
def source() -> SteppedSource:
    told = story(num_blocks=96, requests=20)
    told.run(140)
    return told


@pytest.mark.parametrize(
    ("size", "kept", "gone"),
    [
        ((116, 36), ("96 blocks", "preempt", "hit ", "tok/s"), ("full in",)),
        ((80, 24), ("96 blocks", "active", "cached", "free", "preempt"), ("full in",)),
    ],
)
async def test_the_forecast_goes_first_and_pool_size_and_preemptions_stay(
    source: SteppedSource, size: tuple[int, int], kept: tuple[str, ...], gone: tuple[str, ...]
) -> None:
    async with on_stage(source, size) as (app, _pilot):
        figures = text(app).splitlines()[1]
        assert all(word in figures for word in kept) and not any(word in figures for word in gone), figures


async def test_no_waiting_reason_and_no_line_of_the_log_is_cut_off_at_120_columns(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        app.scene.all_events = True
        await settle(app, pilot)
        assert app.scene.view.with_status("waiting")
        for panel in (app.live.sequences, app.live.log_panel):
            for line in panel.content(panel.size.width - 2, 100)[1:]:
                words = "".join(part for part, _ in line)
                assert "…" not in words and len(words) <= panel.size.width - 2, words
        told = "\n".join("".join(p for p, _ in line) for line in app.live.sequences.content(46, 100))
        assert "behind req-" in told


async def test_the_head_of_the_queue_is_marked_where_it_stands_out_of_its_order(source: SteppedSource) -> None:
    async with on_stage(source, (80, 24)) as (app, _pilot):
        region = app.live.sequences.region
        lines = text(app).splitlines()[region.y : region.bottom]
        assert lines[-2].startswith("│↳") and "1–2 of" in lines[-1] and "head of the queue" in lines[-1]


async def test_every_owner_of_a_block_is_named_in_full(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        view = app.scene.view
        block = int(view.blocks.ref_counts.argmax())
        assert view.blocks.ref_counts[block] >= 5
        app.live.point_at(block)
        await settle(app, pilot)
        region = next(panel for panel in app.live.query("BlockPanel")).region
        shown = "\n".join(line[region.x : region.right] for line in text(app).splitlines()[region.y : region.bottom])
        for row, _ in view.holders_of(block)[:6]:
            assert f" {row.name} " in shown, shown
