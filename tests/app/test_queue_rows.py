"""The sequence table keeps the head of the queue in sight, and nobody else in its place, wherever the list stands."""

from __future__ import annotations

import pytest

from kvtop.app.scene import SORT_KEYS
from tests.app.feed import SteppedSource, story
from tests.app.stage import on_stage, settle

WIDTH, HEIGHT = 46, 9


@pytest.fixture
def source() -> SteppedSource:
    """Forty requests in a tight pool, at a step at which preempted ones wait before those that never ran."""
    told = story(num_blocks=96, requests=40)
    roster = told.engine.scheduler.roster
    told.run(60)
    while not (roster.waiting and roster.waiting[0].preemptions and roster.waiting[-1].wait is None):
        told.run()
    return told


async def test_the_row_that_is_marked_as_the_head_of_the_queue_is_the_scheduler_s(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        table, view = app.live.sequences, app.scene.view
        head = view.sequences[source.engine.scheduler.roster.waiting[0].seq]
        marked = 0
        for sort in SORT_KEYS:
            app.scene.sort = sort
            rows = [row.seq for row in table.ordered()]
            for first in range(0, len(rows), 3):
                table.first_row = first
                lines = ["".join(part for part, _ in line) for line in table.content(WIDTH, HEIGHT)]
                pinned = [line for line in lines if line.startswith("↳")]
                below = rows.index(head.seq) >= table.first_row + HEIGHT - 1
                assert len(pinned) == below and all(f" {head.name} " in line for line in pinned), (sort, first)
                marked += below
        assert marked
        await settle(app, pilot)


async def test_by_admission_those_that_do_not_run_stand_as_the_scheduler_takes_them(source: SteppedSource) -> None:
    async with on_stage(source) as (app, _pilot):
        roster = source.engine.scheduler.roster
        rows = app.live.sequences.ordered()
        assert [row.seq for row in rows] == [s.seq for s in (*roster.running, *roster.swapped, *roster.waiting)]
        app.scene.sort = "blocks"
        idle = [row.seq for row in app.live.sequences.ordered() if not row.table]
        assert idle == [sequence.seq for sequence in roster.waiting], "all hold as much, so they stand as in the queue"


async def test_the_selected_row_is_in_sight_wherever_one_goes(source: SteppedSource) -> None:
    async with on_stage(source) as (app, _pilot):
        table, scene = app.live.sequences, app.scene
        rows = table.ordered()
        for row in (*rows, *reversed(rows)):
            scene.selected = row.seq
            lines = ["".join(part for part, _ in line) for line in table.content(WIDTH, HEIGHT)]
            (marked,) = (line for line in lines if line.startswith("▌"))
            assert f" {row.name} " in marked
