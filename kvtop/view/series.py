"""The recent past in numbers: pool levels and running totals, by time and by step, in two rings of fixed size.

Rows hold totals since the engine started, not differences: a rate over any window is one subtraction, and a missed
batch costs no count. Wall time; a bin without news repeats the one before. Unknown is NaN in arrays, None in figures.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from kvtop.view.pool_view import PoolView

BIN_SECONDS = 0.5
BINS = 720
"""6 minutes."""
STEPS = 1_024


class Column(IntEnum):
    """What a row holds. ACTIVE and CACHED are blocks now, the rest are totals since the start."""

    ACTIVE = 0
    CACHED = 1
    PREEMPTIONS = 2
    GENERATED = 3
    COMPUTED = 4
    RECOMPUTED = 5
    QUERIED = 6
    HIT = 7
    SWAPPED = 8


Values = npt.NDArray[np.float64]


class PressureSeries:
    """``bins[i % BINS]`` is the state at the end of bin i (i × BIN_SECONDS is its start on the wall clock);
    ``step_rows[i % STEPS]`` belongs to the i-th batch that was seen, its step is in ``step_numbers``."""

    def __init__(self) -> None:
        self.bins = np.zeros((BINS, len(Column)), np.int64)
        self.first_bin = 0
        """The oldest bin held; meaningless while ``last_bin`` is negative."""
        self.last_bin = -1
        self.started_s = 0.0
        """Wall time of the first news."""
        self.step_rows = np.zeros((STEPS, len(Column)), np.int64)
        self.step_numbers = np.zeros(STEPS, np.int64)
        self.steps_seen = 0

    def add(self, view: PoolView) -> None:
        """Note the state after a batch."""
        totals = view.counters
        row = (
            view.blocks.active,
            view.blocks.cached,
            totals.preemptions,
            totals.generated_tokens,
            totals.computed_tokens,
            totals.recomputed_tokens,
            totals.prefix_queried_tokens,
            totals.prefix_hit_tokens,
            totals.swapped_blocks,
        )
        self._advance_to(int(view.wall_s / BIN_SECONDS), view.wall_s)
        self.bins[self.last_bin % BINS] = row
        if self.steps_seen and self.step_numbers[(self.steps_seen - 1) % STEPS] == view.step:
            self.steps_seen -= 1  # several batches of one step (a command, a snapshot): the last one counts
        self.step_rows[self.steps_seen % STEPS] = row
        self.step_numbers[self.steps_seen % STEPS] = view.step
        self.steps_seen += 1

    def _advance_to(self, bin_index: int, wall_s: float) -> None:
        if self.last_bin < 0:
            self.first_bin = self.last_bin = bin_index
            self.started_s = wall_s
        if bin_index > self.last_bin:  # a clock that was set back stays in the last bin
            missing = np.arange(max(self.last_bin + 1, bin_index - BINS + 1), bin_index + 1)
            self.bins[missing % BINS] = self.bins[self.last_bin % BINS].copy()
            self.last_bin = bin_index
            self.first_bin = max(self.first_bin, bin_index - BINS + 1)

    def at(self, wall_s: float) -> npt.NDArray[np.int64] | None:
        """int64[len(Column)]: the state at a wall time; None before the first news, or when that is forgotten."""
        wanted = min(int(wall_s / BIN_SECONDS), self.last_bin)
        return self.bins[wanted % BINS] if self.last_bin >= 0 and wanted >= self.first_bin else None

    def gained(self, column: Column, now_s: float, seconds: float) -> tuple[int, float] | None:
        """How much a total grew in the last ``seconds``, and over how many seconds that really is (fewer when watching
        began later); None when less than 1 s was seen."""
        if self.last_bin < 0:
            return None
        since = max(now_s - seconds, self.first_bin * BIN_SECONDS)
        before, now = self.at(since), self.at(now_s)
        elapsed = min(now_s - since, now_s - self.started_s)
        if before is None or now is None or elapsed < 1:
            return None
        return int(now[column] - before[column]), elapsed

    def over_time(self, column: Column, now_s: float, seconds: float, points: int) -> Values:
        """float64[points]: a level or total at ``points`` moments that end at ``now_s``; NaN where nothing is known."""
        if self.last_bin < 0:
            return np.full(points, np.nan)
        moments = now_s - seconds + seconds / points * np.arange(1, points + 1)
        wanted = np.floor(moments / BIN_SECONDS).astype(np.int64)
        values = self.bins[np.minimum(wanted, self.last_bin) % BINS, column].astype(np.float64)
        values[wanted < self.first_bin] = np.nan
        return values

    def over_steps(self, column: Column, points: int) -> tuple[npt.NDArray[np.int64], Values]:
        """The last ``points`` steps seen (int64[k]) and the level or total after each (float64[k]); k <= points."""
        first = max(0, self.steps_seen - min(points, STEPS))
        rows = np.arange(first, self.steps_seen) % STEPS
        return self.step_numbers[rows].copy(), self.step_rows[rows, column].astype(np.float64)
