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


@dataclass(slots=True, frozen=True)
class Row:
    """A comparison, what it is called, and the least ratio expected of it."""

    name: str
    compared: Compared
    at_least: float


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


def print_head(other: str) -> None:
    print(f"{'':<44}{'engine':>10}{other:>11}{'ratio':>9}")


def print_row(row: Row) -> None:
    compared = row.compared
    low, high = min(compared.ratios), max(compared.ratios)
    notes = ["short"] if compared.ratio < row.at_least else []
    if not compared.quiet:
        notes.append(f"not quiet: others took up to {compared.others:.2f} cores")
    print(
        f"{row.name:<44}{_time(compared.ours_s):>10}{_time(compared.other_s):>11}{compared.ratio:>8.2f}x  "
        f"({low:.2f} to {high:.2f}, at least {row.at_least:g}x)  {'; '.join(notes)}".rstrip(),
        flush=True,
    )


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"
