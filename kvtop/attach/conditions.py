"""Conditions for probes: ``usage>0.95 for 60s`` over the rows of a fleet, or ``total.waiting>100`` over their sum.

A figure that a server does not tell cannot be judged, and that is a failure of its own: a probe that knows nothing must
not pass. A figure with nothing to count (no request in the window) is told, and fulfils no condition. Pure: the caller
brings rows and times.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from kvtop.failure import Failure
from kvtop.view.fleet import LATENCIES, LENGTHS, FleetRow, FleetTotal
from kvtop.view.fleet_findings import where

PLAIN = (
    *("usage", "running", "waiting", "preemptions_per_min", "hit_rate", "hit_rate_since_start"),
    *("prompt_tokens_per_s", "generated_tokens_per_s", "age_s"),
)
RATES = ("preemptions_per_min", "prompt_tokens_per_s", "generated_tokens_per_s")
_FORM = re.compile(r"\s*(total\.)?([a-z_0-9]+)\s*(>=|<=|>|<)\s*([0-9.]+)(%?)(?:\s+for\s+([0-9.]+)\s*(s|m|min|h))?\s*")
_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


class ConditionError(Failure):
    """A condition cannot be understood; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class Condition:
    """``figure`` of every row (or of the sum) compared with ``limit``, for ``for_s`` seconds on end."""

    text: str
    figure: str
    total: bool
    sign: str
    limit: float
    for_s: float

    def holds(self, value: float) -> bool:
        if self.sign == ">":
            return value > self.limit
        if self.sign == ">=":
            return value >= self.limit
        return value < self.limit if self.sign == "<" else value <= self.limit


def parse_condition(text: str) -> Condition:
    """A condition from its text.

    Raises:
        ConditionError: it has another form, or names a figure that does not exist.
    """
    match = _FORM.fullmatch(text)
    if match is None or match[4].count(".") > 1 or match[4] == ".":
        raise ConditionError(f"{text!r}: expected a condition such as 'usage>0.95 for 60s'")
    total, figure, sign, limit, percent, span, unit = match.groups()
    if figure not in PLAIN and _quantile(figure) is None:
        known = ", ".join(PLAIN)
        raise ConditionError(
            f"{text!r}: there is no figure {figure!r}; there are {known}, and quantiles such as ttft_p95 or e2e_p99"
        )
    value = float(limit) / 100 if percent else float(limit)
    return Condition(text.strip(), figure, bool(total), sign, value, float(span) * _SECONDS[unit] if span else 0.0)


def _quantile(figure: str) -> tuple[str, float] | None:
    """``ttft_p95`` is the 0.95 quantile of ``ttft``."""
    name, _, share = figure.rpartition("_p")
    if name not in (*LATENCIES, *LENGTHS) or not (share.isdecimal() and 0 < int(share) < 100):
        return None
    return name, int(share) / 100


@dataclass(slots=True)
class Verdict:
    """What became of one condition so far."""

    condition: Condition
    since: dict[str, float] = field(default_factory=dict)
    """Where it holds now → since when."""
    failed: str = ""
    """Why the probe fails; empty while it does not."""
    unknown: dict[str, str] = field(default_factory=dict)
    """Where it cannot be judged → why."""

    @property
    def is_open(self) -> bool:
        """It holds somewhere, not yet for long enough."""
        return bool(self.since) and not self.failed

    def judge(self, rows: Sequence[FleetRow], total: FleetTotal, now_s: float) -> None:
        """Look at the figures of this moment."""
        subjects: list[tuple[str, FleetRow | FleetTotal]] = [("the fleet", total)]
        if not self.condition.total:
            subjects = [(where(row), row) for row in rows if not row.is_stale or self.condition.figure == "age_s"]
        holding = {}
        self.unknown = {}
        for name, subject in subjects:
            value, is_told = _value(subject, self.condition.figure)
            if value is None:
                if not is_told:
                    self.unknown[name] = f"{self.condition.text}: {name} does not tell {self.condition.figure}"
            elif self.condition.holds(value):
                holding[name] = self.since.get(name, now_s)
                if now_s - holding[name] >= self.condition.for_s and not self.failed:
                    self.failed = f"{self.condition.text}: {name} has {self.condition.figure} {value:.4g}"
        self.since = holding


def _value(subject: FleetRow | FleetTotal, figure: str) -> tuple[float | None, bool]:
    """A figure's value, and whether it is told at all (there may be nothing to count)."""
    quantile = _quantile(figure)
    if quantile is not None:
        name, share = quantile
        told = subject.quantile(name, share)
        return (None, name in subject.histograms) if told is None else (told.value, True)
    value = getattr(subject, figure, None)
    if value is not None:
        return float(value), True
    if isinstance(subject, FleetTotal):
        return None, figure == "hit_rate"
    if figure == "hit_rate":
        return None, subject.prefix_queried == 0
    return None, figure in RATES and subject.span_s == 0
