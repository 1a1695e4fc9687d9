"""What the lab shows side by side: the idea in twelve slots, the published experiment, or experiments of one's own.

The twelve slots are a toy made for one line of the screen. In its first step two requests run: A has 3 tokens and 3
slots reserved, B 2 and 3. Paged in blocks of 2, A's three tokens take two blocks, B's two take one, and 6 slots are
free instead of 1. Later requests show the rest: who waits, what was reserved for nothing, and free slots in the wrong
places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kvtop.lab.combinations import varying
from kvtop.lab.experiment import PUBLISHED_ROWS, Experiment
from kvtop.lab.lane import Arrival, Lane, TrialLane
from kvtop.lab.published import PublishedTrial
from kvtop.lab.trial import Trial
from kvtop.lab.workload import sample

MOST_LANES = 4


@dataclass(frozen=True, slots=True)
class Preset:
    title: str
    about: str
    build: Callable[[], list[Lane]]
    steps_per_second: float
    """To begin with."""


_TOY_CONTIGUOUS = Experiment(
    policy="reserve-prompt-max-tokens",
    placement="first-fit",
    region_block_size=1,
    pool_tokens=12,
    max_model_len=12,
    lookahead_slots=0,
)
_TOY_PAGED = replace(_TOY_CONTIGUOUS, policy="paged", block_size=2)
_TOY_ARRIVALS = (
    Arrival(step=1, name="A", prompt_tokens=3, max_tokens=3, output_tokens=3),
    Arrival(step=1, name="B", prompt_tokens=2, max_tokens=3, output_tokens=3),
    Arrival(step=2, name="C", prompt_tokens=1, max_tokens=3, output_tokens=3),
    Arrival(step=3, name="D", prompt_tokens=1, max_tokens=6, output_tokens=4),
    Arrival(step=4, name="E", prompt_tokens=2, max_tokens=3, output_tokens=3),
)


def _toy_lanes() -> list[Lane]:
    return [
        TrialLane(
            _TOY_CONTIGUOUS, (), arrivals=_TOY_ARRIVALS, title="contiguous: room for prompt + max_tokens at once"
        ),
        TrialLane(_TOY_PAGED, (), arrivals=_TOY_ARRIVALS, title="paged: a 2-slot block when the last one is full"),
    ]


TWELVE_SLOTS = Preset("twelve slots", "the same five requests through the same 12 slots", _toy_lanes, 1)


def experiments_preset(title: str, experiments: Sequence[Experiment], published: bool = False) -> Preset:
    """Experiments side by side. ``published``: under the published program's rule, its fault included."""
    kind: type[Trial] = PublishedTrial if published else Trial
    extra = varying(experiments)

    def build() -> list[Lane]:
        return [TrialLane(experiment, sample(experiment), kind=kind, varying=extra) for experiment in experiments]

    pools = {experiment.pool_tokens for experiment in experiments}
    requests = {experiment.requests for experiment in experiments}
    about = f"{_range(pools)} slots · {_range(requests)} requests wait at the start"
    return Preset(title, about, build, 100)


def _range(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


PUBLISHED = experiments_preset("the published experiment", PUBLISHED_ROWS)
IN_REGIONS = experiments_preset(
    "the same in real regions",
    [
        replace(experiment, placement="first-fit") if experiment.reserves else experiment
        for experiment in PUBLISHED_ROWS
    ],
)
PRESETS = (TWELVE_SLOTS, PUBLISHED, IN_REGIONS)
"""The second counts free slots as the published program does, the third gives every reservation one region."""
