"""The line under a chart over time: how far back it goes, ``now``, and a mark where something happened.

Words stay whole: a mark that would stand in one stands beside it, towards the middle. Nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style

from kvtop.app.lines import Span

NOW = "now"


def time_axis(start: str, marks: Sequence[bool], words: Style, mark: Style) -> list[Span]:
    """One span a column, as many as ``marks``; ``start`` and ``now`` must leave a column between them."""
    columns = len(marks)
    first, last = len(start), columns - len(NOW) - 1
    axis = f"{start}{'':{columns - len(start) - len(NOW)}}{NOW}"
    marked = {min(max(column, first), last) for column, is_marked in enumerate(marks) if is_marked}
    return [("▲", mark) if column in marked else (char, words) for column, char in enumerate(axis)]
