"""One lane of the lab on the screen: its pool, and its running totals beneath.

All lanes of a lab are drawn at one scale: a cell stands for the same number of slots in each, and bars of mean running
are as long as the largest mean allows. The pool keeps what the totals leave; totals go from below where it is low.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtop.app.lab.ink import LabInk, cell_codes
from kvtop.app.lines import Line, Part, Span, fitted, fitting, line_width
from kvtop.app.palette import Palette
from kvtop.lab.pool_picture import EXTERNAL, FREE, INTERNAL, KINDS, LIVE, RESERVED, Counts, PoolPicture
from kvtop.view.words import UNKNOWN, count

if TYPE_CHECKING:
    from kvtop.lab.lane import Lane, LaneFigures, SlotSums

MOST_SLOTS_IN_A_ROW = 64
"""Pools up to this size are drawn slot by slot, in one row."""
WIDEST_SLOT = 9
_QUEUE_SHOWN = 12
_LONGEST_BAR = 40


@dataclass(frozen=True, slots=True)
class Scale:
    """What all lanes have in common."""

    num_slots: int
    """Of the largest pool."""
    most_running: float
    """The largest mean."""


class LaneLines:
    """``lines`` once a frame; cells that look as before are not made anew."""

    def __init__(self, palette: Palette, ink: LabInk) -> None:
        self._palette = palette
        self._ink = ink
        self._codes: Counts = np.zeros((0, 0), np.int64)
        self._rows: list[Line] = []

    def lines(self, lane: Lane, scale: Scale, width: int, height: int) -> list[Line]:
        """The inside of a lane's frame: ``height`` lines, each ``width`` cells wide."""
        figures = lane.figures()
        picture = lane.picture()
        now = picture.totals()
        texts = [
            self._running(figures, scale, width),
            self._memory_now(lane, now, width),
            self._memory_mean(lane, figures.sums, width),
            self._counts(lane, figures, width),
        ]
        kept = len(texts) if height >= 7 else 1
        if kept == 1:
            texts = [self._in_short(lane, figures, now, width)]
        if scale.num_slots <= MOST_SLOTS_IN_A_ROW and scale.num_slots * 2 <= width:
            slots = self._slots(picture, width, height - kept)
            queue = [self._queue(lane, picture)] if height > len(slots) + kept else []
            gap: list[Line] = [()] if height > len(slots) + len(queue) + kept + 1 else []
            return self._padded([*gap, *slots, *gap, *queue, *texts[:kept]], width, height)
        cells = self._cells(picture, scale, width, max(1, height - kept))
        return [*cells, *self._padded(texts[:kept], width, height - len(cells))]

    def _padded(self, lines: Sequence[Line], width: int, height: int) -> list[Line]:
        blank = self._palette.named.text
        return [fitted(line, width, blank) for line in [*lines, *[()] * (height - len(lines))][: max(0, height)]]

    # --- the pool -------------------------------------------------------------------------------------------------

    def _slots(self, picture: PoolPicture, width: int, height: int) -> list[Line]:
        slot_width = min(WIDEST_SLOT, width // picture.num_slots)
        return self._ink.slots(picture, slot_width, 3 if height >= 4 else 1)

    def _cells(self, picture: PoolPicture, scale: Scale, width: int, rows: int) -> list[Line]:
        counts = picture.cells(_slots_per_cell(-(-scale.num_slots // (width * rows))), scale.num_slots)
        codes = np.full(width * rows, -1, np.int64)
        codes[: len(counts)] = cell_codes(counts)[: width * rows]
        grid = codes.reshape(rows, width)
        if grid.shape != self._codes.shape:
            self._rows = [self._ink.row(row, width) for row in grid]
        else:
            for y in np.flatnonzero((grid != self._codes).any(axis=1)).tolist():
                self._rows[y] = self._ink.row(grid[y], width)
        self._codes = grid
        return self._rows

    def _queue(self, lane: Lane, picture: PoolPicture) -> Line:
        """How many slots are left, and who waits for some."""
        named = self._palette.named
        totals = picture.totals()
        free = totals[FREE] + totals[EXTERNAL]
        spans: list[Span] = [(f"{count(free, 'slot')} free", named.strong), (" · waiting ", named.muted)]
        names = [] if lane.ended else lane.waiting_names(_QUEUE_SHOWN)
        for name in names:
            spans += [(f" {name} ", named.badge), (" ", named.text)]
        return tuple(spans) if names else (*spans, ("nobody", named.muted))

    def _in_short(self, lane: Lane, figures: LaneFigures, now: Sequence[int], width: int) -> Line:
        """All that matters in one line."""
        named = self._palette.named
        mean = UNKNOWN if figures.mean_running is None else f"{figures.mean_running:,.1f}"
        end = f" in {figures.steps:,} steps" if lane.ended else ""
        parts = [
            Part(0, (("running ", named.muted), (f"{figures.running:,}", named.strong))),
            Part(0, ((" · mean ", named.muted), (mean, named.strong))),
            Part(
                2, ((" · tokens ", named.muted), (_percent(now[LIVE], _held(now)), named.strong), (" now", named.muted))
            ),
            Part(4, ((", mean ", named.muted), (_percent(figures.sums.live, figures.sums.held), named.strong))),
            Part(3, ((" · ", named.muted), (f"{figures.preemptions:,}", named.strong), (" preempted", named.muted))),
            Part(1, ((f" · {figures.finished:,} of {figures.requests:,} done", named.muted), (end, named.good))),
        ]
        return fitting(parts, width)

    # --- totals ---------------------------------------------------------------------------------------------------

    def _running(self, figures: LaneFigures, scale: Scale, width: int) -> Line:
        named = self._palette.named
        mean = figures.mean_running
        spans: list[Span] = [
            ("running ", named.muted), (f"{figures.running:,}", named.strong),
            (" · mean ", named.muted), (UNKNOWN if mean is None else f"{mean:,.1f}", named.strong), (" ", named.text),
        ]  # fmt: skip
        room = min(_LONGEST_BAR, width - line_width(spans))
        if mean and room > 4:
            spans.append(("━" * max(1, round(room * mean / scale.most_running)), named.accent))
        return tuple(spans)

    def _memory_now(self, lane: Lane, now: Sequence[int], width: int) -> Line:
        """Shares of what is held in the step that the picture shows: whoever counts its cells gets these."""
        return self._memory("now ", lane, now, _held(now), sum(now), width)

    def _memory_mean(self, lane: Lane, sums: SlotSums, width: int) -> Line:
        """The same shares over all steps since the start."""
        slots = [0] * KINDS
        slots[LIVE], slots[RESERVED], slots[INTERNAL] = sums.live, sums.reserved, sums.internal
        slots[EXTERNAL] = sums.external
        return self._memory("mean", lane, slots, sums.held, sums.pool, width)

    def _memory(self, when: str, lane: Lane, slots: Sequence[int], held: int, pool: int, width: int) -> Line:
        named = self._palette.named
        parts = [Part(5, (("held memory ", named.muted),)), Part(0, ((f"{when} ", named.muted),))]
        shown = [(0, LIVE, "tokens"), (2, INTERNAL, "internal")]
        if lane.reserving:
            shown.insert(1, (1, RESERVED, "reserved"))
        for rank, kind, word in shown:
            parts.append(
                Part(
                    rank,
                    (
                        self._ink.sample(kind),
                        (f" {_percent(slots[kind], held)}", named.strong),
                        (f" {word}  ", named.muted),
                    ),
                )
            )
        if slots[EXTERNAL]:
            share = f" {_percent(slots[EXTERNAL], pool)}"
            parts.append(Part(2, (self._ink.sample(EXTERNAL), (share, named.strong), (" of pool", named.muted))))
            parts.append(Part(6, ((" external", named.muted),)))
        return fitting(parts, width)

    def _counts(self, lane: Lane, figures: LaneFigures, width: int) -> Line:
        named = self._palette.named
        preempted = named.warning if figures.preemptions else named.strong
        parts = [
            Part(1, ((f"{figures.preemptions:,}", preempted), (" preempted · ", named.muted))),
            Part(0, ((f"{figures.finished:,}", named.strong), (f" of {figures.requests:,} done", named.muted))),
            Part(2, ((f" · {figures.waiting:,} waiting", named.muted),)),
        ]
        if lane.ended:
            parts[2] = Part(0, ((f" in {figures.steps:,} steps", named.good),))
        return fitting(parts, width)


def _percent(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else UNKNOWN


def _held(slots: Sequence[int]) -> int:
    return slots[LIVE] + slots[RESERVED] + slots[INTERNAL]


def scale_of(lanes: Sequence[Lane]) -> Scale:
    means = [lane.figures().mean_running or 0.0 for lane in lanes]
    return Scale(max(lane.num_slots for lane in lanes), max(*means, 1e-9))


def _slots_per_cell(least: int) -> int:
    """A rounder number not much larger: three leading bits, so that cells begin where blocks do more often than not."""
    unit = 1 << max(0, least.bit_length() - 4)
    return -(-least // unit) * unit
