"""A finding: what is worth a word, with the evidence in numbers and what to do about it.

A rule looks at a view at one moment and returns a Case, or None. What lasts becomes a Finding (see findings.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from kvtop.view.pool_view import PoolView

Weight = Literal["problem", "warning", "note"]
"""``problem``: somebody pays for it now; ``warning``: memory or work is wasted; ``note``: looks odd and is harmless."""

WEIGHTS: tuple[Weight, ...] = ("problem", "warning", "note")


@dataclass(frozen=True, slots=True)
class Case:
    """What a rule finds at one moment. All texts are clean, on one line, and name settings as their flags do."""

    weight: Weight
    headline: str
    evidence: str
    advice: str
    seq: int = 0
    """The sequence it is about; 0: none in particular."""


@dataclass(frozen=True, slots=True)
class Rule:
    """``judge(view, now_s, held)`` says what is so at wall time ``now_s``; ``held`` is True while the finding stands,
    and then a weaker case is enough to keep it. It fires when there was a case for ``after_s`` without a break, and
    resolves when there was none for ``until_s``."""

    key: str
    judge: Callable[[PoolView, float, bool], Case | None]
    after_s: float = 0.0
    until_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """``case`` is as it was seen last."""

    key: str
    case: Case
    since_s: float
    """Wall time at which it fired, and the step."""
    since_step: int
    seen_s: float
    """Wall time at which there last was a case for it, and the step (0: there are no steps)."""
    seen_step: int = 0
    paused_s: float = 0.0
    """Of the time between, for how long the engine stood paused."""
    resolved_s: float | None = None

    @property
    def lasted_s(self) -> float:
        return self.seen_s - self.since_s - self.paused_s

    def evidence_at(self, step: int) -> str:
        """The evidence, with its step where that is not the one that is shown: in a calm there is no newer one."""
        evidence = self.case.evidence
        return evidence if step == self.seen_step else f"{evidence} (at step {self.seen_step:,}, not so now)"
