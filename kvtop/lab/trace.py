"""What a trial did, step by step, and the row of figures that follows from it.

A step's figures are taken after admission and before the step's tokens. Nothing here decides anything; the cost model
prices a finished trace (price.py).
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any

from kvtop.lab.experiment import Experiment


@dataclass(frozen=True, slots=True)
class Loss:
    """A preemption: at ``step`` sequence ``seq`` lost the KV of ``tokens`` tokens, ``generated`` of them its own."""

    step: int
    seq: int
    tokens: int
    generated: int


@dataclass(frozen=True, slots=True)
class Entry:
    """An admission: at ``step`` sequence ``seq`` had ``tokens`` tokens computed at once; ``again`` after a loss."""

    step: int
    seq: int
    tokens: int
    prompt_tokens: int
    again: bool


def _column() -> array[int]:
    return array("q")


@dataclass(slots=True)
class Trace:
    """Columns have one entry a step; step numbers count from 1."""

    running: array[int] = field(default_factory=_column)
    """Sequences."""
    live_tokens: array[int] = field(default_factory=_column)
    """Prompt and generated tokens of the running sequences."""
    held_slots: array[int] = field(default_factory=_column)
    losses: list[Loss] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    thrown_away_tokens: int = 0
    """Generated tokens that were lost with a preemption, and generated again."""
    rejected: int = 0
    """Requests that could never run."""
    exhausted: int = 0
    """Requests that ended early because even alone they outgrew the pool."""

    @property
    def steps(self) -> int:
        return len(self.running)

    def add_step(self, running: int, live_tokens: int, held_slots: int) -> None:
        self.running.append(running)
        self.live_tokens.append(live_tokens)
        self.held_slots.append(held_slots)

    @property
    def decoded_tokens(self) -> int:
        """Every running sequence gains a token a step."""
        return sum(self.running)


def row(experiment: Experiment, trace: Trace) -> dict[str, Any]:
    """The experiment's line in the table, unrounded."""
    steps, held = trace.steps, sum(trace.held_slots)
    recomputed = sum(loss.tokens for loss in trace.losses)
    first_prompts = sum(entry.tokens for entry in trace.entries if not entry.again)
    return {
        "policy": experiment.policy,
        "block_size": None if experiment.reserves else experiment.block_size,
        "pool_tokens": experiment.pool_tokens,
        "requests": experiment.requests,
        "steps": steps,
        "mean_running": trace.decoded_tokens / steps if steps else 0.0,
        "kv_utilization": sum(trace.live_tokens) / held if held else 0.0,
        "preemptions": len(trace.losses),
        "recomputed_tokens": recomputed,
        "prefilled_tokens": sum(entry.prompt_tokens for entry in trace.entries),
        "decoded_tokens": trace.decoded_tokens,
        "total_work_tokens": first_prompts + trace.decoded_tokens + recomputed,
    }
