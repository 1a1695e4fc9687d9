"""Histograms of cumulative buckets: added over ranks, subtracted over time, asked for quantiles.

A quantile of many servers is the quantile of their added buckets, never a mean of quantiles. Within a bucket values are
taken as spread evenly, as Prometheus' ``histogram_quantile`` does.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quantile:
    """``value``, or more than ``value`` where it lies beyond the last finite bucket."""

    value: float
    beyond: bool = False
    under: float | None = None
    """It lies in the first bucket, so it may be anything below this; ``value`` is then a guess."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """``cumulative[i]`` values were at most ``bounds[i]``; the last bound is infinity, its count the number of all."""

    bounds: tuple[float, ...]
    cumulative: tuple[float, ...]
    total: float
    """Sum of all values."""

    @property
    def count(self) -> float:
        return self.cumulative[-1]

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    def since(self, earlier: Histogram) -> Histogram | None:
        """What came after ``earlier``; None when that is not an earlier state of the same histogram."""
        if self.bounds != earlier.bounds:
            return None
        differences = tuple(new - old for new, old in zip(self.cumulative, earlier.cumulative, strict=True))
        if min(differences) < 0:
            return None
        return Histogram(self.bounds, differences, self.total - earlier.total)

    def quantile(self, share: float) -> Quantile | None:
        """The value that ``share`` of all values do not exceed; None when there are none."""
        if not self.count:
            return None
        rank = share * self.count
        index = min(bisect_left(self.cumulative, rank), len(self.bounds) - 1)
        lower = self.bounds[index - 1] if index else min(0.0, self.bounds[0])
        if math.isinf(self.bounds[index]):
            return Quantile(lower, beyond=True)
        before = self.cumulative[index - 1] if index else 0.0
        inside = self.cumulative[index] - before
        part = (rank - before) / inside if inside else 1.0
        under = self.bounds[0] if index == 0 and self.bounds[0] > 0 else None
        return Quantile(lower + (self.bounds[index] - lower) * part, under=under)

    def share_within(self, limit: float) -> float | None:
        """Share of values at most ``limit``; None when there are none, or when the buckets end before ``limit``."""
        finite = self.bounds[:-1]
        if not self.count or not finite or limit > finite[-1]:
            return None
        index = bisect_left(self.bounds, limit)
        lower, before = (self.bounds[index - 1], self.cumulative[index - 1]) if index else (0.0, 0.0)
        width = self.bounds[index] - lower
        part = (limit - lower) / width if width else 1.0
        return (before + (self.cumulative[index] - before) * part) / self.count

    def largest(self) -> Quantile | None:
        """Upper bound of the highest bucket that holds a value: no value seen was larger."""
        if not self.count:
            return None
        index = bisect_left(self.cumulative, self.count)
        if math.isinf(self.bounds[index]):
            return Quantile(self.bounds[index - 1] if index else 0.0, beyond=True)
        return Quantile(self.bounds[index])


def merged(histograms: Iterable[Histogram]) -> Histogram | None:
    """All of them in one; None for none. Where bounds differ, those that all have are kept: exact, if coarse."""
    parts = list(histograms)
    if not parts:
        return None
    common = set(parts[0].bounds).intersection(*(part.bounds for part in parts[1:]))
    bounds = tuple(sorted(common | {math.inf}))
    sums = [0.0] * len(bounds)
    for part in parts:
        at = dict(zip(part.bounds, part.cumulative, strict=True))
        for index, bound in enumerate(bounds):
            sums[index] += at.get(bound, part.count)
    return Histogram(bounds, tuple(sums), sum(part.total for part in parts))
