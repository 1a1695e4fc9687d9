"""The figures of the top lines. Each says its time scale; what is not known is None, never 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvtop.view.series import Column

if TYPE_CHECKING:
    from kvtop.view.pool_view import PoolView

THROUGHPUT_SECONDS = 10.0
"""Window of tokens/s."""
PREEMPTION_SECONDS = 60.0
"""Window of preemptions/min."""
TREND_SECONDS = 20.0
"""Window that a forecast extends into the future."""
MIN_TREND_SECONDS = 5.0
MIN_RISE_BLOCKS = 2
MIN_LEVELS = 4
"""Different levels a trend must have gone through: one large step is no trend."""
FORECAST_LIMIT_SECONDS = 900.0
"""A forecast further away than this is no forecast."""


def tokens_per_second(view: PoolView, now_s: float) -> float | None:
    """Generated tokens a second over the last THROUGHPUT_SECONDS."""
    gained = view.series.gained(Column.GENERATED, now_s, THROUGHPUT_SECONDS)
    return gained[0] / gained[1] if gained else None


def preemptions_per_minute(view: PoolView, now_s: float) -> float | None:
    """Over the last PREEMPTION_SECONDS, or since watching began if that is less."""
    gained = view.series.gained(Column.PREEMPTIONS, now_s, PREEMPTION_SECONDS)
    return 60 * gained[0] / gained[1] if gained else None


def recompute_share(view: PoolView, now_s: float) -> float | None:
    """Of the tokens computed in the last PREEMPTION_SECONDS, the share that had been computed before and was lost."""
    computed = view.series.gained(Column.COMPUTED, now_s, PREEMPTION_SECONDS)
    again = view.series.gained(Column.RECOMPUTED, now_s, PREEMPTION_SECONDS)
    return again[0] / computed[0] if computed and again and computed[0] else None


def hit_rate(view: PoolView) -> float | None:
    """Prompt tokens found in the prefix cache, of those looked up at first admissions, since the engine started."""
    queried = view.counters.prefix_queried_tokens
    return view.counters.prefix_hit_tokens / queried if queried else None


def seconds_until_full(view: PoolView, now_s: float) -> float | None:
    """When active blocks will fill the pool if they go on as in the last TREND_SECONDS: least squares over them. None
    when that can't be told: too little was seen, the engine is paused, the trend is down or lost in its own noise, or
    the moment is too far off. Cached blocks give way, so they don't count as full."""
    series = view.series
    seen = min(TREND_SECONDS, now_s - series.started_s)
    if view.info is None or view.paused or seen < MIN_TREND_SECONDS:
        return None
    points = int(2 * seen)
    active = series.over_time(Column.ACTIVE, now_s, seen, points)
    if np.isnan(active).any():
        return None
    times = np.arange(points) * (seen / points)
    slope, level = np.polyfit(times, active, 1)
    noise = float(np.std(active - (level + slope * times)))
    rise = slope * seen
    left = view.info.num_blocks - view.blocks.active
    if left == 0:
        return 0.0
    if rise < max(MIN_RISE_BLOCKS, 2 * noise) or len(np.unique(active)) < MIN_LEVELS:
        return None
    seconds = left / slope
    return float(seconds) if seconds <= FORECAST_LIMIT_SECONDS else None
