"""A lane: one policy in the lab, run a step at a time, with its running totals and its picture.

A lane always stands between the halves of a step, after admission and before the step's tokens: what is drawn is what
the figures count. What may differ from lane to lane is how the step is run (a trial here, a whole engine in
engine_lane.py); the screen knows only this.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from kvtop.engine.requests import Request
from kvtop.lab.experiment import Experiment
from kvtop.lab.holding import Holding
from kvtop.lab.labels import experiment_label
from kvtop.lab.pool_picture import NO_BLOCKS, Counts, PoolPicture, packed_picture, picture_of_tables
from kvtop.lab.trial import Trial
from kvtop.lab.workload import Work

COUNTED_NOTE = "counted, no places: drawn packed"


@dataclass(slots=True)
class SlotSums:
    """Slots added up over steps; divided by one another they are means."""

    pool: int = 0
    held: int = 0
    live: int = 0
    reserved: int = 0
    external: int = 0

    def add(self, pool: int, held: int, live: int, reserved: int, external: int) -> None:
        self.pool += pool
        self.held += held
        self.live += live
        self.reserved += reserved
        self.external += external

    def copy(self) -> SlotSums:
        return replace(self)

    @property
    def internal(self) -> int:
        return self.held - self.live - self.reserved


@dataclass(frozen=True, slots=True)
class LaneFigures:
    """Running totals. ``kv_utilization`` and ``mean_running`` are those of ``kvtop sim``."""

    steps: int
    running: int
    waiting: int
    finished: int
    requests: int
    preemptions: int
    mean_running: float | None
    sums: SlotSums

    @property
    def kv_utilization(self) -> float | None:
        return self.sums.live / self.sums.held if self.sums.held else None


class Lane(Protocol):
    title: str
    note: str
    """What must be known to read its picture; empty: nothing."""
    reserving: bool
    caching: bool
    """Freed blocks are kept for who has the same prefix."""
    num_slots: int
    block_size: int
    """Slots that are handed out together; 1 where any free slots do."""
    ended: bool

    @property
    def preemptions(self) -> int:
        """So far."""
        ...

    def advance(self) -> None:
        """Run a step; only while it has not ended."""
        ...

    def figures(self) -> LaneFigures: ...

    def picture(self) -> PoolPicture: ...

    def waiting_names(self, most: int) -> list[str]:
        """The head of the queue and who comes after it."""
        ...


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that joins the queue at a step."""

    step: int
    name: str
    prompt_tokens: int
    max_tokens: int
    output_tokens: int


class TrialLane:
    """An experiment's trial. ``work`` waits at the start, ``arrivals`` (by step) come later."""

    caching = False

    def __init__(
        self,
        experiment: Experiment,
        work: Sequence[Work],
        *,
        kind: Callable[[Experiment, Sequence[Work]], Trial] = Trial,
        arrivals: Sequence[Arrival] = (),
        title: str = "",
        varying: Sequence[str] = (),
    ) -> None:
        self.experiment = experiment
        self.trial = kind(experiment, work)
        self.title = title or experiment_label(experiment, varying)
        self.note = COUNTED_NOTE if experiment.counted else ""
        self.reserving = experiment.reserves
        self.num_slots = self.trial.kv.pool.num_blocks * self.trial.kv.block_size
        self.block_size = self.trial.kv.block_size
        self.ended = False
        self._requests = len(work) + len(arrivals)
        self._arrivals = deque(arrivals)
        self._sums = SlotSums()
        self._running_sum = 0
        self._final_tokens = 0
        """Of the running sequences together, when their answers are complete."""
        self._moves_seen = -1
        self._kept_tables: dict[int, Counts] = {}
        self._begin_step()

    @property
    def preemptions(self) -> int:
        return len(self.trial.trace.losses)

    def advance(self) -> None:
        self.trial.end_step()
        if self.trial.has_work or self._arrivals:
            self._begin_step()
        else:
            self.ended = True

    def _begin_step(self) -> None:
        trial = self.trial
        while self._arrivals and self._arrivals[0].step <= trial.roster.step + 1:
            arrival = self._arrivals.popleft()
            request = Request(id=arrival.name, max_tokens=arrival.max_tokens)
            trial.add(request, Work(arrival.prompt_tokens, arrival.output_tokens))
        trial.begin_step()
        running, live, held = (
            column[-1] for column in (trial.trace.running, trial.trace.live_tokens, trial.trace.held_slots)
        )
        self._running_sum += running
        reserved = 0
        if self.reserving:
            if trial.roster.moves != self._moves_seen:
                self._moves_seen = trial.roster.moves
                self._final_tokens = sum(holding.final_tokens for holding in trial.holdings())
            reserved = self._final_tokens - live
        self._sums.add(self.num_slots, held, live, reserved, trial.stuck_slots())

    def figures(self) -> LaneFigures:
        trial, trace = self.trial, self.trial.trace
        return LaneFigures(
            steps=trace.steps,
            running=len(trial.roster.running),
            waiting=trial.waiting,
            finished=trial.ended,
            requests=self._requests,
            preemptions=self.preemptions,
            mean_running=self._running_sum / trace.steps if trace.steps else None,
            sums=self._sums.copy(),
        )

    def picture(self) -> PoolPicture:
        trial = self.trial
        holdings = [] if self.ended else list(trial.holdings())
        if self.experiment.counted:
            return packed_picture(holdings, self.num_slots)
        return picture_of_tables(
            holdings,
            self._tables(holdings),
            trial.kv.pool.num_blocks,
            self.block_size,
            reserving=self.reserving,
            stuck=not self.ended and trial.stuck_slots() > 0,
            cached=NO_BLOCKS,
        )

    def _tables(self, holdings: Sequence[Holding]) -> list[Counts]:
        """The block tables as arrays; those that did not grow since the last picture are kept."""
        before, self._kept_tables = self._kept_tables, {}
        for holding in holdings:
            table = before.get(holding.admission)
            if table is None or len(table) != len(holding.blocks):
                table = np.array(holding.blocks, np.int64)
            self._kept_tables[holding.admission] = table
        return list(self._kept_tables.values())

    def waiting_names(self, most: int) -> list[str]:
        return [sequence.request.id for sequence in self.trial.roster.waiting[:most]]
