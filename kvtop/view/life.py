"""One sequence's life: what it went through from step to step, and how many blocks it held meanwhile.

Kept from events as they come, of bounded size: of a very long life the beginning is forgotten, and the curve of blocks
is thinned. Steps and wall seconds, side by side; while the engine stands paused neither counts, but
steps that are run one by one meanwhile do.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Literal, TypeVar

import msgspec

from kvtop.view.pauses import Pauses

Phase = Literal["waits", "prefill", "decode", "preempted", "swapped", "recompute"]
"""``preempted``: its KV is gone and it waits; ``recompute``: the prefill of what was lost."""

FROZEN: tuple[Phase, ...] = ("preempted", "swapped", "recompute")
"""Phases in which whoever reads the stream sees it stand still."""

_SHOWN_FIRST: tuple[Phase, ...] = ("swapped", "preempted", "recompute", "prefill", "waits", "decode")
"""Which phase is shown where several meet in one place: the rarer before the common."""

T = TypeVar("T")

MOST_STRETCHES = 60
MOST_LEVELS = 128


class Stretch(msgspec.Struct, frozen=True):
    """A phase and when it began."""

    phase: Phase
    since_step: int
    since_s: float


class Span(msgspec.Struct, frozen=True):
    """A stretch with its end: ``steps`` it lasted, and ``seconds`` in which the engine was not paused."""

    phase: Phase
    since_step: int
    steps: int
    seconds: float


class Life(msgspec.Struct):
    stretches: list[Stretch] = []
    levels: list[tuple[int, int]] = []
    """(step, blocks in its table from then on), steps ascending."""
    is_cut: bool = False
    """What came before the first stretch is not known."""

    @property
    def phase(self) -> Phase | None:
        return self.stretches[-1].phase if self.stretches else None

    def enter(self, phase: Phase, step: int, wall_s: float) -> None:
        """From here on it is in ``phase``; nothing happens when it is already."""
        if phase == self.phase:
            return
        self.stretches.append(Stretch(phase, step, wall_s))
        if len(self.stretches) > MOST_STRETCHES:
            del self.stretches[:2]
            self.is_cut = True

    def hold(self, step: int, blocks: int) -> None:
        """Its table has so many blocks now."""
        if self.levels and self.levels[-1][0] == step:
            self.levels[-1] = (step, blocks)
            return
        self.levels.append((step, blocks))
        if len(self.levels) > MOST_LEVELS:
            del self.levels[1:-1:2]

    @property
    def most_blocks(self) -> int:
        return max((blocks for _, blocks in self.levels), default=0)

    def spans(self, end_step: int, end_s: float, pauses: Pauses) -> list[Span]:
        """Its stretches up to now, or up to its end."""
        ends = [(after.since_step, after.since_s) for after in self.stretches[1:]] + [(end_step, end_s)]
        return [
            Span(now.phase, now.since_step, max(0, step - now.since_step), pauses.outside(now.since_s, wall_s))
            for now, (step, wall_s) in zip(self.stretches, ends, strict=True)
        ]

    def frozen_seconds(self, end_step: int, end_s: float, pauses: Pauses) -> float | None:
        """All the time it stood still after it had begun to give out tokens; None: it never did."""
        spans = self.spans(end_step, end_s, pauses)
        first = next((i for i, span in enumerate(spans) if span.phase == "decode"), len(spans))
        frozen = [span.seconds for span in spans[first:] if span.phase in FROZEN]
        return sum(frozen) if frozen else None


class Column(msgspec.Struct, frozen=True):
    """A slice of a life as one column of a chart shows it."""

    phase: Phase
    blocks: int
    """The most it held in that time."""


def columns_of(life: Life, end_step: int, width: int) -> list[Column]:
    """The life in ``width`` columns of equally many steps, the last one ending with ``end_step``; fewer columns when
    it has fewer steps. Empty before it began."""
    if not life.stretches or width < 1:
        return []
    begin = life.stretches[0].since_step
    steps = max(1, end_step - begin + 1)
    count = min(width, steps)
    starts = [stretch.since_step for stretch in life.stretches]
    level_steps = [step for step, _ in life.levels]
    columns: list[Column] = []
    for index in range(count):
        first, after = begin + index * steps // count, begin + (index + 1) * steps // count
        phases = {stretch.phase for stretch in _inside(life.stretches, starts, first, after)}
        held = [blocks for _, blocks in _inside(life.levels, level_steps, first, after)]
        columns.append(Column(min(phases, key=_SHOWN_FIRST.index), max(held, default=0)))
    return columns


def _inside(items: list[T], starts: list[int], first: int, after: int) -> list[T]:
    """Those in force at some step from ``first`` to before ``after``: each holds from its start to the next one's."""
    return items[max(0, bisect_right(starts, first) - 1) : bisect_right(starts, after - 1)]
