"""Figures of a run, added up from its batches: a recorded run and a simulated one are measured by the same rule.

Taken after each step, through the same view and the same words of waste as the screen's. Times are steps, since a
simulated engine's seconds are a model's.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import msgspec

from kvtop.engine import events as e
from kvtop.view.pool_view import PoolView
from kvtop.view.waste import measure_waste


class Meter:
    """``take`` every batch, then ask for the ``figures``. ``view`` is where the run begins: empty, or what a keyframe
    at the start of a recording shows."""

    def __init__(self, view: PoolView) -> None:
        self.view = view
        self.completed = self.rejected = self.exhausted = 0
        self._start = msgspec.structs.replace(view.counters)
        self._steps = 0
        self._running = 0
        self._held_slots = self._live_slots = self._external_slots = 0
        self._waits: list[int] = []
        self._stalls: list[int] = []
        self._lost: dict[int, int] = {}
        """Preempted sequences, and the step in which they lost their blocks."""

    def take(self, batch: e.Batch) -> None:
        first = self.view.info is None
        self.view.apply(batch)
        if first and batch.snapshot is not None and batch.snapshot.counters.steps > 1:
            self._start = batch.snapshot.counters  # a recording that began in the midst of a run
        for event in batch.events:
            match event:
                case e.Advanced():
                    self._take_step(event, batch.step)
                case e.Admitted():
                    self._waits.append(event.waited_steps)
                case e.Preempted():
                    self._lost.setdefault(event.seq, batch.step)
                case e.Completed():
                    self.completed += 1
                    self.exhausted += "pool_exhausted" in event.reasons
                case e.Rejected():
                    self.rejected += 1

    def _take_step(self, advanced: e.Advanced, step: int) -> None:
        waste = measure_waste(self.view)
        if waste is None:
            return
        self._steps += 1
        self._running += len(set(advanced.seqs))
        self._held_slots += waste.held
        self._live_slots += waste.live
        self._external_slots += waste.external
        if self._lost:
            for seq, token in zip(advanced.seqs, advanced.sampled, strict=True):
                if token >= 0 and seq in self._lost:
                    self._stalls.append(step - self._lost.pop(seq) + 1)

    def figures(self) -> dict[str, Any]:
        """What the run came to; None where there is nothing to measure."""
        info, counters = self.view.info, self.view.counters
        assert info is not None, "no snapshot came"
        return {
            "policy": info.policy,
            "block_size": info.block_size,
            "num_blocks": info.num_blocks,
            "requests": self.completed + self.rejected,
            "steps": self._steps,
            "mean_running": self._running / self._steps if self._steps else None,
            "kv_utilization": self._live_slots / self._held_slots if self._held_slots else None,
            "external_share": self._external_slots / (self._steps * info.num_blocks * info.block_size or 1),
            "preemptions": counters.preemptions - self._start.preemptions,
            "recomputed_tokens": counters.recomputed_tokens - self._start.recomputed_tokens,
            "swapped_blocks": counters.swapped_blocks - self._start.swapped_blocks,
            "prefix_hit_tokens": counters.prefix_hit_tokens - self._start.prefix_hit_tokens,
            "wait_p50_steps": percentile(self._waits, 0.50),
            "wait_p95_steps": percentile(self._waits, 0.95),
            "stall_p95_steps": percentile(self._stalls, 0.95),
            "stall_max_steps": max(self._stalls, default=None),
            "rejected": self.rejected,
            "pool_exhausted": self.exhausted,
        }


def percentile(values: Sequence[float], share: float) -> float | None:
    """The nearest rank: the smallest value that at least this share does not exceed."""
    return sorted(values)[ceil(share * len(values)) - 1] if values else None
