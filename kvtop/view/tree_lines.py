"""A tree of branches as rows: every branch, parents first, with the lines that lead to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar


class _Branch(Protocol):
    @property
    def branches(self) -> Sequence[_Branch]: ...


B = TypeVar("B", bound=_Branch)


def rows_of_tree(tops: Sequence[B]) -> list[tuple[B, str]]:
    """Each branch with its lines: ``"│  ├─ "``."""
    found: list[tuple[B, str]] = []
    waiting = [(branch, "", "", "") for branch in reversed(tops)]
    while waiting:
        branch, before, bend, rail = waiting.pop()
        found.append((branch, before + bend))
        below: Sequence[B] = branch.branches  # type: ignore[assignment]  # what follows a branch is of its own kind
        for index in range(len(below) - 1, -1, -1):
            ends = index == len(below) - 1
            waiting.append((below[index], before + rail, "└─ " if ends else "├─ ", "   " if ends else "│  "))
    return found
