"""What the scheduler hands to a runner for one step, and what the runner hands back.

A plan is complete: a runner needs nothing else to compute the step. It must do the transfers first, in order (a
later one may overwrite what an earlier one read), then write the new KV, then attend.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from kvtop.engine.sequences import Sequence


@dataclass(slots=True, frozen=True)
class Transfer:
    """Copy one block, all layers: within the pool (copy-on-write), to the swap space, or back from it."""

    kind: Literal["copy", "swap_out", "swap_in"]
    src: int
    dst: int


@dataclass(slots=True)
class Scheduled:
    """``count`` tokens of ``sequence`` from position ``start`` on are computed in this step.

    ``draws`` says what is wanted from the logits of the last of them: nothing (0, prefill is not done), or this many
    sampled tokens. Draw i belongs to sample ``sequence.index + i`` of the request (more than 1 only where parallel
    samples part, after the prompt). A beam asks for its ``candidates`` likeliest continuations instead.
    """

    sequence: Sequence
    start: int
    count: int
    draws: int = 0
    candidates: int = 0


@dataclass(slots=True)
class StepPlan:
    step: int
    scheduled: list[Scheduled] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)

    @property
    def num_tokens(self) -> int:
        return sum(entry.count for entry in self.scheduled)


@dataclass(slots=True, frozen=True)
class Sampled:
    """A token drawn or proposed, and its log-probability under the model (before temperature and penalties)."""

    token: int
    logprob: float = 0.0
    top: tuple[tuple[int, float], ...] = ()
    """The likeliest tokens with their log-probabilities, when the request asked for them."""


@dataclass(slots=True)
class StepResult:
    """``sampled[i]`` belongs to ``plan.scheduled[i]``: empty, ``draws`` tokens, or ``candidates`` in falling order."""

    sampled: list[list[Sampled]]
    computed_tokens: int
    """Tokens the runner really ran through the model; the engine asserts that it equals the plan's."""


class Runner(Protocol):
    """Computes steps. Real (a model), simulated (a cost model) or fake (tests)."""

    def run(self, plan: StepPlan) -> StepResult: ...

    def release(self, sequence: Sequence) -> None:
        """The sequence ended; drop what was kept for it."""
        ...
