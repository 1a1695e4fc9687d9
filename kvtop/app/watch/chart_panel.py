"""A rank's last minutes as area charts: how full its pool was, and how many tokens it made a second.

A column of the chart is a slice of time and shows the highest value in it; where nothing was told it is blank, so that
a server that was away leaves a hole and no zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from rich.style import Style

from kvtop.app.lines import Line, Span
from kvtop.app.watch.scene import WatchScene
from kvtop.app.widgets.drawing import FramedDrawing
from kvtop.app.widgets.time_axis import time_axis
from kvtop.attach.trail import Point
from kvtop.view.words import duration

SPANS_SECONDS = (60.0, 300.0)
"""A chart covers the shortest of these that holds all there is, else the longest."""
GUTTER = 7
_EIGHTHS = " ▁▂▃▄▅▆▇█"


class ChartPanel(FramedDrawing):
    """``value`` of each point, over ``top`` at the chart's upper edge (None: the highest that is shown)."""

    scene: WatchScene

    def __init__(
        self,
        scene: WatchScene,
        id: str,
        name: str,
        value: Callable[[Point], float | None],
        label: Callable[[float], str],
        top: float | None = None,
    ) -> None:
        super().__init__(scene, id)
        self._heading = name
        self._value = value
        self._label = label
        self._top = top

    @property
    def moves_with_time(self) -> bool:
        return True

    def title(self) -> Sequence[Span]:
        named = self.scene.palette.named
        return [(self._heading, named.title), (f" {duration(self._span_s())}", named.muted)]

    def _span_s(self) -> float:
        history = self.scene.history(self.scene.place)
        points = history.trail.points if history is not None else ()
        age_s = self.scene.fleet.now_s() - points[0].at_s if points else 0.0
        return next((span for span in SPANS_SECONDS if age_s <= span), SPANS_SECONDS[-1])

    def figures(self) -> Sequence[Span]:
        named = self.scene.palette.named
        return [("▲", named.bad), (" preempted ones resumed", named.muted)] if self._top is not None else ()

    def content(self, width: int, height: int) -> Sequence[Line]:
        columns, rows = width - GUTTER - 1, height - 1
        history = self.scene.history(self.scene.place)
        if history is None or columns < 10 or rows < 1:
            return ()
        slices = _sliced(history.trail.points, self.scene.fleet.now_s(), self._span_s(), columns)
        values = [_highest(self._value(point) for point in part) for part in slices]
        top = self._top or max((value for value in values if value is not None), default=0.0) or 1.0
        marks = [any(point.preemptions for point in part) for part in slices]
        stale = self.scene.row.is_stale
        ink = self.scene.palette.named.faint if stale else self.scene.palette.style_of("active", "background")
        lines = [self._row(rows - 1 - at, rows, values, top, ink) for at in range(rows)]
        return [*lines, self._axis(marks)]

    def _row(self, row: int, rows: int, values: Sequence[float | None], top: float, ink: Style) -> Line:
        named = self.scene.palette.named
        label = self._label(top) if row == rows - 1 else self._label(0.0) if row == 0 else ""
        shown = "".join(_cell(value, top, row, rows) for value in values)
        return ((f"{label:>{GUTTER - 1}} ", named.faint), (shown, ink))

    def _axis(self, marks: Sequence[bool]) -> Line:
        named = self.scene.palette.named
        shown = marks if self._top is not None else [False] * len(marks)
        words = f"-{duration(self._span_s())}"
        return ((" " * GUTTER, named.text), *time_axis(words, shown, named.faint, named.bad))


def _sliced(points: Sequence[Point], now_s: float, span_s: float, columns: int) -> list[list[Point]]:
    """The points of each column's slice of time, the oldest first."""
    slices: list[list[Point]] = [[] for _ in range(columns)]
    for point in points:
        at = columns - 1 - int((now_s - point.at_s) / span_s * columns)
        if 0 <= at < columns:
            slices[at].append(point)
    for at in range(1, columns):  # readings come more seldom than columns: one is good until the next is due
        if not slices[at] and slices[at - 1] and any(slices[at + 1 : at + 1 + columns // 15]):
            slices[at] = [_still(slices[at - 1][-1])]
    return slices


def _still(point: Point) -> Point:
    """The same levels a little later; nothing happened since."""
    return replace(point, preemptions=None)


def _highest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _cell(value: float | None, top: float, row: int, rows: int) -> str:
    if value is None:
        return " "
    eighths = value / top * rows * 8
    if 0 < eighths < 1:
        eighths = 1
    return _EIGHTHS[max(0, min(8, round(eighths) - row * 8))]
