"""The line under a chart over time."""

from __future__ import annotations

from rich.style import Style

from kvtop.app.widgets.time_axis import time_axis

WORDS, MARK = Style(), Style(bold=True)


def axis(marked: set[int], columns: int = 20) -> str:
    spans = time_axis("-60 s", [column in marked for column in range(columns)], WORDS, MARK)
    assert all((char == "▲") == (style is MARK) for char, style in spans)
    return "".join(char for char, _ in spans)


def test_a_mark_stands_in_its_column_and_beside_a_word_it_would_stand_in() -> None:
    assert axis(set()) == "-60 s            now"
    assert axis({7, 16}) == "-60 s  ▲        ▲now"
    assert axis({0, 3, 17, 18, 19}) == "-60 s▲          ▲now"
    assert axis({4, 9, 18}, columns=9) == "-60 s▲now"
