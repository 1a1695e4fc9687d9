"""A recording as what a page can play: moments at even distances, few enough and small enough to be sent in a mail.

Two passes over the batches. The first counts steps and events, and from that follow the stride (every k-th step is a
moment), and which types of event are listed; the second makes them. What was left out is said in words in the film. All
texts come out of the view's words and are clean. Nothing is decided about looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np

from kvtop.engine.events import Batch
from kvtop.failure import Failure
from kvtop.page.extent import Contents, contents_of, kind_of, listed_types, range_of, steps_of
from kvtop.sources.timeline import Timeline
from kvtop.view import figures
from kvtop.view.cells import cells_of
from kvtop.view.clean import clean_line
from kvtop.view.describe import describe
from kvtop.view.findings import FindingsLog
from kvtop.view.owner_slots import NO_SLOT
from kvtop.view.pool_view import PoolView
from kvtop.view.sequence_view import SequenceView
from kvtop.view.sequence_words import state_of, waits_for
from kvtop.view.turns import reading_order
from kvtop.view.waste import measure_waste
from kvtop.view.words import count, size

SLOTS = 372
"""Slots beyond this are drawn like earlier ones: it is a multiple of 62 glyphs and of 12 colours."""
STATE_BITS, FILL_BITS, SHARED_BIT, SLOT_SHIFT = 2, 3, 5, 6
"""A cell in 16 bits: state, fill << 2, shared << 5, (slot + 1) << 6."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that goes into a film."""

    moments: int = 2_000
    cells: int = 4_096
    rows: int = 64
    """Sequences told at each moment."""
    events: int = 5_000
    total_cells: int = 4_000_000
    """Over all moments."""

    def halved(self) -> Bounds:
        """Half as much over time; the picture of a moment stays as fine."""
        return Bounds(self.moments // 2, self.cells, self.rows, self.events // 2, self.total_cells // 2)


@dataclass(slots=True)
class Film:
    """``facts`` is plain data for JSON; ``cells`` are uint16[moments, cells], little-endian, each moment XORed with the
    one before it (what did not change is 0)."""

    facts: dict[str, Any]
    cells: bytes


def make_film(timeline: Timeline, bounds: Bounds, from_step: int | None = None, to_step: int | None = None) -> Film:
    """The film of a recording, or of the steps from ``from_step`` to ``to_step``. Of several engines in one recording,
    the last that has such steps.

    Raises:
        Failure: there is no such step.
        RecordingError: the recording is damaged there.
    """
    start, end = range_of(timeline, from_step, to_step)
    counted = contents_of(timeline, start, end)
    if not counted.steps:
        raise Failure("there is no step between these: choose others")
    return _Maker(timeline, bounds, counted, start, end).film()


class _Maker:
    """The second pass."""

    def __init__(self, timeline: Timeline, bounds: Bounds, counted: Contents, start: int, end: int) -> None:
        self._timeline, self._bounds, self._counted = timeline, bounds, counted
        self._start, self._end = start, end
        self._last_step = timeline.batch(end - 1).step
        self._view = timeline.view_at(start)
        self._log = FindingsLog()
        self._listed = listed_types(counted.kinds, bounds.events)
        self._stride = 1
        self._per_cell = 1
        self._moments: dict[str, list[float | int | None]] = {name: [] for name in _MOMENT}
        self._rows: list[list[list[int]]] = []
        self._findings: list[list[list[int]]] = []
        self._cells: list[np.ndarray] = []
        self._tables: dict[int, list[int]] = {}
        self._table_changes: dict[int, list[list[Any]]] = {}
        self._events: list[list[Any]] = []
        self._strings: dict[str, int] = {"": 0}
        self._names: dict[int, str] = {}

    def film(self) -> Film:
        since_moment = 0
        for batch, is_last in steps_of(self._timeline, self._start, self._end):
            if batch.number <= self._view.number:  # the first of another engine
                self._view = PoolView()
            self._view.apply(batch)
            if self._view.info is None:
                continue
            if not self._moments["step"]:
                self._choose_scale()
            self._log.observe(self._view)
            self._list_events(batch)
            since_moment += is_last
            due = since_moment >= self._stride or batch.step == self._last_step or not self._moments["step"]
            if is_last and due:
                self._take_moment()
                since_moment = 0
        if not self._moments["step"]:
            raise Failure("the recording holds no state of an engine: there is nothing to show")
        return Film(self._facts(), self._packed())

    def _choose_scale(self) -> None:
        num_blocks = self._view.blocks.num_blocks
        self._per_cell = -(-num_blocks // self._bounds.cells)
        cells = -(-num_blocks // self._per_cell)
        most = max(2, min(self._bounds.moments, self._bounds.total_cells // cells))
        self._stride = -(-self._counted.steps // most)

    # --- events and moments -------------------------------------------------------------------------------------------

    def _list_events(self, batch: Batch) -> None:
        """Each with the moment at which it can first be seen."""
        for event in batch.events:
            if kind_of(event) in self._listed and len(self._events) < self._bounds.events:
                words = self._string(describe(event, self._view))
                seq = getattr(event, "seq", 0)
                self._events.append([len(self._moments["step"]), batch.step, self._string(kind_of(event)), words, seq])

    def _take_moment(self) -> None:
        view = self._view
        for name, value in _MOMENT.items():
            self._moments[name].append(value(view))
        order = sorted(view.sequences.values(), key=reading_order)
        listed = order[: self._bounds.rows]
        self._rows.append([self._row(sequence) for sequence in listed])
        self._note_tables(listed)
        told = (
            (finding.case.weight, finding.case.headline, finding.evidence_at(view.step), finding.case.advice)
            for finding in self._log.renew(view)
        )
        self._findings.append([[self._string(text) for text in texts] for texts in told])
        cells = cells_of(view, self._per_cell)
        slots = np.where(cells.slots == NO_SLOT, 0, cells.slots % SLOTS + 1).astype(np.uint16)
        self._cells.append(
            cells.states.astype(np.uint16)
            | cells.fills.astype(np.uint16) << STATE_BITS
            | cells.shared.astype(np.uint16) << SHARED_BIT
            | slots << SLOT_SHIFT
        )

    def _row(self, sequence: SequenceView) -> list[int]:
        view = self._view
        self._names[sequence.seq] = sequence.name
        slot = view.slots.slot_of(sequence.seq)
        shared = int((view.blocks.ref_counts[sequence.table] > 1).sum()) if sequence.table else 0
        waits = self._string(waits_for(view, sequence)) if sequence.status != "running" else 0
        return [
            sequence.seq,
            slot % SLOTS + 1 if slot != NO_SLOT and sequence.table else 0,
            self._string(state_of(sequence)),
            sequence.tokens,
            len(sequence.table),
            shared,
            sequence.generated,
            sequence.max_tokens,
            sequence.preemptions,
            waits,
        ]

    def _note_tables(self, listed: list[SequenceView]) -> None:
        """What changed in the block tables since the moment before: how many entries stay, and those that follow."""
        moment = len(self._rows) - 1
        tables = {sequence.seq: sequence.table for sequence in listed if sequence.table}
        for seq in self._tables.keys() | tables.keys():
            before, after = self._tables.get(seq, []), tables.get(seq, [])
            if before != after:
                same = (one == other for one, other in zip(before, after, strict=False))
                kept = sum(takewhile(bool, same))
                self._table_changes.setdefault(seq, []).append([moment, kept, after[kept:]])
        self._tables = {seq: list(table) for seq, table in tables.items()}

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    # --- the film -----------------------------------------------------------------------------------------------------

    def _packed(self) -> bytes:
        cells = np.stack(self._cells)
        cells[1:] ^= cells[:-1].copy()
        return cells.astype("<u2").tobytes()

    def _facts(self) -> dict[str, Any]:
        info = self._view.info
        assert info is not None
        return {
            "model": clean_line(info.model, 60),
            "engine": ("" if info.simulated else f"{info.device} {info.dtype} · ")
            + f"{info.policy}, preempts by {info.preempt}, victim {info.victim}",
            "simulated": info.simulated,
            "pool": f"{count(info.num_blocks, 'block')} of {count(info.block_size, 'token')}, "
            f"{size(info.num_blocks * info.block_size * info.kv_bytes_per_token)}",
            "num_blocks": info.num_blocks,
            "per_cell": self._per_cell,
            "moments": self._moments,
            "rows": self._rows,
            "tables": self._table_changes,
            "names": self._names,
            "strings": list(self._strings),
            "events": self._events,
            "findings": self._findings,
            "left_out": self._left_out(),
        }

    def _left_out(self) -> list[str]:
        """What the film does not hold, in sentences."""
        said = []
        if self._stride > 1:
            said.append(f"one of every {self._stride:,} of {count(self._counted.steps, 'step')} is shown")
        if self._per_cell > 1:
            said.append(f"a cell is {self._per_cell:,} blocks, in the colour of most")
        missing = sorted(kind for kind in self._counted.kinds if kind not in self._listed)
        if missing:
            said.append(f"events of these types are not listed: {', '.join(missing)}")
        wanted = sum(number for kind, number in self._counted.kinds.items() if kind in self._listed)
        if wanted > self._bounds.events:
            said.append(f"the first {self._bounds.events:,} of {wanted:,} events are listed")
        if any(len(rows) == self._bounds.rows for rows in self._rows):
            said.append(f"at most {self._bounds.rows} sequences are listed at a moment")
        return said


_MOMENT: dict[str, Any] = {
    "step": lambda view: view.step,
    "wall_s": lambda view: round(view.wall_s, 3),
    "active": lambda view: view.blocks.active,
    "cached": lambda view: view.blocks.cached,
    "running": lambda view: len(view.with_status("running")),
    "waiting": lambda view: len(view.with_status("waiting")),
    "swapped": lambda view: len(view.with_status("swapped")),
    "preemptions": lambda view: view.counters.preemptions,
    "recomputed": lambda view: view.counters.recomputed_tokens,
    "generated": lambda view: view.counters.generated_tokens,
    "tokens_per_s": lambda view: _rounded(figures.tokens_per_second(view, view.wall_s), 1),
    "waste": lambda view: _rounded(_waste(view), 4),
    "hit_rate": lambda view: _rounded(figures.hit_rate(view), 4),
}
"""Figures of a moment, a column each; None is unknown."""


def _waste(view: PoolView) -> float | None:
    waste = measure_waste(view)
    return waste.wasted_share if waste is not None else None


def _rounded(value: float | None, places: int) -> float | None:
    return None if value is None else round(value, places)
