"""Lines of styled text, measured in terminal cells: what every panel but the grid is made of.

A line is a tuple of (text, style) pairs, so two frames are compared with ``==`` and only rows that differ are drawn
again. Text must have come through ``kvtop.view.clean``; nothing here reads markup.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from kvtop.view.clean import fit, width

Span = tuple[str, Style]
Line = tuple[Span, ...]


def _cells(text: str) -> int:
    return len(text) if text.isascii() else width(text)


def line_width(line: Iterable[Span]) -> int:
    return sum(_cells(text) for text, _ in line)


def fitted(line: Iterable[Span], cells: int, blank: Style) -> Line:
    """``line`` cut with an ellipsis, or padded with ``blank``, to exactly ``cells`` cells."""
    kept: list[Span] = []
    left = cells
    for text, style in line:
        taken = _cells(text)
        if taken > left:
            if left > 0:
                kept.append((fit(text, left), style))
            elif kept:
                text, style = kept[-1]
                kept[-1] = (fit(text + "…", width(text)), style)
            left = 0
            break
        kept.append((text, style))
        left -= taken
    if left:
        kept.append((" " * left, blank))
    return tuple(kept)


def between(left: Iterable[Span], right: Iterable[Span], cells: int, blank: Style) -> Line:
    """``left`` and ``right`` at the two ends of one line; where they meet, the left one is cut."""
    right = tuple(right)
    room = cells - line_width(right)
    if room < 0:
        return fitted(right, cells, blank)
    return (*fitted(left, room, blank), *right)


def wrapped(text: str, style: Style, cells: int) -> list[Line]:
    """``text`` broken at spaces into lines of at most ``cells`` cells; a longer word is cut into pieces."""
    lines: list[Line] = []
    current = ""
    for word in text.split(" "):
        while True:
            candidate = f"{current} {word}" if current else word
            if width(candidate) <= cells:
                current = candidate
                break
            if current:
                lines.append(((current, style),))
                current = ""
                continue
            head = _head(word, cells)
            lines.append(((head, style),))
            word = word[len(head) :]
    if current or not lines:
        lines.append(((current, style),))
    return lines


def _head(word: str, cells: int) -> str:
    """As many first characters as fit, at least one."""
    for end in range(1, len(word)):
        if width(word[: end + 1]) > cells:
            return word[:end]
    return word


class Part(NamedTuple):
    """A piece of a line that may have to go: those of the highest rank first, rank 0 never."""

    rank: int
    spans: Line


def fitting(parts: Iterable[Part], cells: int) -> Line:
    """The parts that have room in ``cells``, in their order."""
    kept = [(part, line_width(part.spans)) for part in parts]
    over = sum(taken for _, taken in kept) - cells
    while over > 0 and any(part.rank for part, _ in kept):
        going = max(reversed(kept), key=lambda one: one[0].rank)
        kept.remove(going)
        over -= going[1]
    return tuple(span for part, _ in kept for span in part.spans)


def strip_of(line: Line, cells: int) -> Strip:
    """A line that is exactly ``cells`` cells wide, ready to be shown; neighbours of one style become one segment."""
    segments: list[Segment] = []
    texts: list[str] = []
    for place, (text, style) in enumerate(line, start=1):
        texts.append(text)
        if place == len(line) or line[place][1] is not style:  # a palette has one object a style; comparing is slow
            segments.append(Segment("".join(texts), style))
            texts.clear()
    return Strip(segments, cells)
