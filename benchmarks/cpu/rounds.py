"""Two programs in turn, several times, and what their ratio is.

One idea: what is reported is the median of the rounds' own ratios, so that a machine that slows down half-way does
not decide. A round that was not quiet is run again, up to ``MOST_REPEATS`` times, and then counted and marked.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.cpu.quiet import QuietCheck

MOST_REPEATS = 2


@dataclass(slots=True, frozen=True)
class Compared:
    """``ratios[i]`` is how many times as long the other took as ours in round i; ``others`` the most cores that other
    processes used meanwhile."""

    ours_s: float
    other_s: float
    ratios: list[float]
    others: float
    quiet: bool

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)


def compare(ours: Callable[[], float], other: Callable[[], float], rounds: int) -> Compared:
    """Both return seconds."""
    ours_s, other_s, others, quiet = [], [], 0.0, True
    for _ in range(rounds):
        for _ in range(1 + MOST_REPEATS):
            with QuietCheck() as check:
                one, two = ours(), other()
            if check.quiet:
                break
        ours_s.append(one)
        other_s.append(two)
        others = max(others, check.others)
        quiet = quiet and check.quiet
    ratios = [two / one for one, two in zip(ours_s, other_s, strict=True)]
    return Compared(statistics.median(ours_s), statistics.median(other_s), ratios, others, quiet)


def print_row(name: str, compared: Compared, at_least: float, unit: float = 1.0) -> None:
    """``unit`` is how many seconds the printed one has."""
    low, high = min(compared.ratios), max(compared.ratios)
    mark = "" if compared.quiet else f"  not quiet: others took {compared.others:.2f} cores"
    verdict = "" if compared.ratio >= at_least else "  short"
    print(
        f"{name:<44}{compared.ours_s / unit:>9.1f}{compared.other_s / unit:>10.1f}{compared.ratio:>8.2f}x"
        f"  ({low:.2f} to {high:.2f}, at least {at_least:g}x){verdict}{mark}",
        flush=True,
    )
