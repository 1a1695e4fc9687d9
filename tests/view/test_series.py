from __future__ import annotations

import numpy as np
import pytest

from kvtop.engine.events import Batch, EngineInfo
from kvtop.view.figures import (
    hit_rate,
    preemptions_per_minute,
    recompute_share,
    seconds_until_full,
    tokens_per_second,
)
from kvtop.view.pool_view import PoolView
from kvtop.view.series import BIN_SECONDS, BINS, STEPS, Column
from tests.sources.traffic import batches


class Told:
    """A view whose totals and levels are set by hand at moments set by hand."""

    def __init__(self, num_blocks: int = 100) -> None:
        self.view = PoolView()
        snapshot = batches(1, num_blocks=num_blocks)[0].snapshot
        assert snapshot is not None
        self.view.info = snapshot.info
        self.view.blocks.num_blocks = num_blocks

    def note(self, wall_s: float, active: int = 0, cached: int = 0, **totals: int) -> None:
        view = self.view
        view.wall_s = wall_s
        view.step += 1
        view.blocks.active, view.blocks.cached = active, cached
        for name, value in totals.items():
            setattr(view.counters, name, value)
        view.series.add(view)


@pytest.fixture
def told() -> Told:
    return Told()


def test_nothing_is_known_before_the_first_news() -> None:
    view = PoolView()
    assert np.isnan(view.series.over_time(Column.ACTIVE, 50.0, 10.0, 4)).all()
    assert view.series.gained(Column.GENERATED, 50.0, 10.0) is None
    assert tokens_per_second(view, 50.0) is None
    assert preemptions_per_minute(view, 50.0) is None
    assert recompute_share(view, 50.0) is None
    assert hit_rate(view) is None
    assert seconds_until_full(view, 50.0) is None


def test_levels_over_time_hold_until_the_next_news_and_are_unknown_before_the_first(told: Told) -> None:
    told.note(100.0, active=5)
    told.note(103.0, active=9)
    values = told.view.series.over_time(Column.ACTIVE, 106.0, 8.0, 8)
    assert np.isnan(values[0])
    assert values[1:].tolist() == [5, 5, 5, 9, 9, 9, 9]


def test_a_rate_is_over_the_window_or_over_what_was_seen_of_it(told: Told) -> None:
    told.note(100.0, generated_tokens=1_000, preemptions=4)
    told.note(104.0, generated_tokens=1_080, preemptions=6)
    assert tokens_per_second(told.view, 104.0) == pytest.approx(20)
    assert preemptions_per_minute(told.view, 104.0) == pytest.approx(30)
    told.note(200.0, generated_tokens=1_180)
    assert tokens_per_second(told.view, 200.0) == pytest.approx(10)
    assert tokens_per_second(told.view, 260.0) == 0


def test_less_than_a_second_is_too_little_for_a_rate(told: Told) -> None:
    told.note(100.0, generated_tokens=0)
    told.note(100.4, generated_tokens=50)
    assert tokens_per_second(told.view, 100.4) is None


def test_the_share_of_recompute_and_the_hit_rate_are_ratios_of_counts(told: Told) -> None:
    told.note(100.0, computed_tokens=0, recomputed_tokens=0)
    told.note(110.0, computed_tokens=400, recomputed_tokens=72, prefix_queried_tokens=200, prefix_hit_tokens=50)
    assert recompute_share(told.view, 110.0) == pytest.approx(0.18)
    assert hit_rate(told.view) == 0.25


def test_the_ring_forgets_and_stays_bounded(told: Told) -> None:
    size = told.view.series.bins.nbytes
    for moment in range(3 * BINS):
        told.note(moment * BIN_SECONDS, active=moment % 50)
    series = told.view.series
    assert series.bins.nbytes == size
    assert series.at((2 * BINS - 1) * BIN_SECONDS) is None
    kept = series.at((2 * BINS + 10) * BIN_SECONDS)
    assert kept is not None and kept[Column.ACTIVE] == (2 * BINS + 10) % 50
    told.note(1e6, active=7)
    assert series.over_time(Column.ACTIVE, 1e6, 60, 6).tolist()[-1] == 7


def test_a_clock_that_is_set_back_loses_nothing(told: Told) -> None:
    told.note(100.0, active=5)
    told.note(40.0, active=6)
    assert told.view.series.over_time(Column.ACTIVE, 100.0, 1.0, 1).tolist() == [6]


def test_steps_are_kept_one_row_a_step(told: Told) -> None:
    for step in range(STEPS + 20):
        told.note(float(step), active=step)
    steps, levels = told.view.series.over_steps(Column.ACTIVE, 3)
    assert levels.tolist() == [STEPS + 17, STEPS + 18, STEPS + 19]
    assert steps.tolist() == [STEPS + 18, STEPS + 19, STEPS + 20]
    told.view.step -= 1
    told.note(5_000.0, active=1)
    assert told.view.series.over_steps(Column.ACTIVE, 2)[1].tolist() == [STEPS + 18, 1]
    assert len(told.view.series.over_steps(Column.ACTIVE, 10 * STEPS)[0]) == STEPS


def test_a_steady_rise_says_when_the_pool_is_full(told: Told) -> None:
    for second in range(21):
        told.note(100.0 + second, active=10 + second)
    assert seconds_until_full(told.view, 120.0) == pytest.approx(70, rel=0.1)


@pytest.mark.parametrize(
    ("levels", "paused"),
    [
        ([10, 11, 12], False),  # too little was seen
        ([50] * 20, False),  # level
        (list(range(50, 30, -1)), False),  # falling
        ([30, 60] * 10, False),  # noise
        ([50] * 10 + [51] * 10, False),  # a rise so slow that the end is out of sight
        ([10] * 9 + [40] * 9 + [70] * 3, False),  # two large steps: no trend
        (list(range(10, 30)), True),
    ],
)
def test_what_cannot_be_told_is_not_told(told: Told, levels: list[int], paused: bool) -> None:
    for second, level in enumerate(levels):
        told.note(100.0 + second, active=level)
    told.view.paused = paused
    assert seconds_until_full(told.view, 100.0 + len(levels) - 1) is None


def test_a_full_pool_is_full_now(told: Told) -> None:
    for second in range(10):
        told.note(100.0 + second, active=min(100, 91 + 2 * second))
    assert seconds_until_full(told.view, 109.0) == 0


def test_real_batches_fill_the_series() -> None:
    made: list[Batch] = batches(200)
    view = PoolView()
    for batch in made:
        view.apply(batch)
    assert isinstance(view.info, EngineInfo)
    rate = tokens_per_second(view, view.wall_s)
    seconds = made[-1].wall_s - made[0].wall_s
    assert rate is not None and rate == pytest.approx(view.counters.generated_tokens / seconds, rel=0.25)
