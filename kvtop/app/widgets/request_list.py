"""The requests, one a row: how long each waited, when its first token came, how long it stood still, how it ended.

Rows come from ``kvtop.view.request_rows``; the chosen one is the selected sequence, or by name one that is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from textual import events

from kvtop.app.actions import panel_bindings
from kvtop.app.lines import Line, Span, fitted
from kvtop.app.scene import Scene
from kvtop.app.widgets.painted import Framed
from kvtop.view.clean import fit
from kvtop.view.request_rows import RequestRow, request_rows
from kvtop.view.words import count, duration


class _Column(NamedTuple):
    title: str
    width: int
    value: Callable[[RequestRow], str]


_COLUMNS = (
    _Column("prompt", 8, lambda row: f"{row.prompt_tokens:,}"),
    _Column("made", 8, lambda row: f"{row.generated:,}"),
    _Column("waited", 12, lambda row: duration(row.waited_s)),
    _Column("first in", 12, lambda row: duration(row.first_token_after_s)),
    _Column("pause", 12, lambda row: duration(row.longest_gap_s) if row.longest_gap_s else "·"),
    _Column("out", 5, lambda row: f"✕{row.preemptions}" if row.preemptions else "·"),
    _Column("cached", 8, lambda row: f"{row.cached_tokens:,}" if row.cached_tokens else "·"),
)
"""From the left; the last ones go first where it is narrow."""
_STATE_WIDTH = 14


class RequestList(Framed, can_focus=True):
    BINDINGS = panel_bindings("requests")

    def __init__(self, scene: Scene, id: str) -> None:
        super().__init__(scene, id)
        self.first_row = 0
        self._num_rows = 0
        """When it was last drawn."""

    def rows(self) -> list[RequestRow]:
        """All rows that pass the filter."""
        wanted = self.scene.filter.lower()
        rows = request_rows(self.scene.view, self.scene.now_s)
        return [row for row in rows if wanted in f"{row.name} {row.state}".lower()] if wanted else rows

    def move(self, step: int) -> None:
        """Choose the row ``step`` below the chosen one."""
        rows = self.rows()
        if rows:
            here = chosen(self.scene, rows)
            at = rows.index(here) + step if here is not None else 0
            self.choose(rows[max(0, min(len(rows) - 1, at))])

    def choose(self, row: RequestRow) -> None:
        self.scene.request = row.name
        self.scene.selected = row.seq or None

    def title(self) -> Sequence[Span]:
        named = self.scene.palette.named
        rows = self.rows()
        over = sum(not row.seq for row in rows)
        return [("requests", named.title), (f"  {len(rows) - over} going on · {over} over", named.text)]

    def figures(self) -> Sequence[Span]:
        return [(f"/{self.scene.filter}", self.scene.palette.named.accent)] if self.scene.filter else ()

    def note(self) -> Sequence[Span]:
        lost = self.scene.view.counters.completed + self.scene.view.counters.rejected - len(self.scene.view.ended)
        seen = max(0, self.size.height - 3)
        last = min(self.first_row + seen, self._num_rows)
        words = [f"{self.first_row + 1}–{last} of {self._num_rows}"] if self._num_rows > seen else []
        if lost > 0:
            words.append(f"{count(lost, 'older request')} no longer kept")
        return [(" · ".join(words), self.scene.palette.named.muted)] if words else ()

    def content(self, width: int, height: int) -> Sequence[Line]:
        named, rows = self.scene.palette.named, self.rows()
        self._num_rows = len(rows)
        if not rows:
            send = "" if self.scene.feed.tape is not None else "; i sends some"
            words = "no request matches the filter" if self.scene.filter else f"no request yet{send}"
            return [((f" {words}", named.muted),)]
        here = chosen(self.scene, rows)
        shown = max(1, height - 1)
        if here is not None:
            at = rows.index(here)
            self.first_row = min(max(self.first_row, at - shown + 1), at)
        self.first_row = max(0, min(self.first_row, len(rows) - shown))
        name_width = max(8, min(max(len(row.name) for row in rows) + 1, width // 3))
        columns = _fitting(width - 3 - name_width - _STATE_WIDTH)
        heading: list[Span] = [("   " + fit("request", name_width) + fit("state", _STATE_WIDTH), named.muted)]
        heading += [(f"{column.title:>{column.width}}", named.muted) for column in columns]
        lines = [fitted(heading, width, named.text)]
        for row in rows[self.first_row : self.first_row + shown]:
            line = fitted(self._row(row, name_width, columns), width, named.text)
            if row is here:
                line = (("▌", named.focus), *line[1:])
                line = tuple((text, self.scene.palette.selected(style)) for text, style in line)
            lines.append(line)
        return lines

    def _row(self, row: RequestRow, name_width: int, columns: Sequence[_Column]) -> Line:
        palette, slot = self.scene.palette, self.scene.view.slots.slot_of(row.seq)
        named = palette.named
        ended_well = row.state in ("stop", "length")
        style = named.good if row.seq and row.life.phase == "decode" else named.muted if ended_well else named.warning
        return (
            (" ", named.text),
            palette.letter(slot, row.blocks),
            (" " + fit(row.name, name_width), named.strong if row.seq else named.text),
            (fit(row.state, _STATE_WIDTH), style),
            *((f"{column.value(row):>{column.width}}", named.text) for column in columns),
        )

    def on_mouse_down(self, event: events.MouseDown) -> None:
        rows, at = self.rows(), self.first_row + event.y - 2
        if event.y >= 2 and at < len(rows):
            self.choose(rows[at])
            self.redraw()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.move(3)
        self.redraw()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.move(-3)
        self.redraw()


def chosen(scene: Scene, rows: Sequence[RequestRow]) -> RequestRow | None:
    """The row that is chosen; of a request that has ended meanwhile its one row."""
    if scene.selected is not None:
        found = next((row for row in rows if row.seq == scene.selected), None)
        if found is not None:
            return found
    by_name = next((row for row in rows if row.name == scene.request), None)
    return by_name or next((row for row in rows if scene.request and scene.request.startswith(row.name + "/")), None)


def _fitting(width: int) -> list[_Column]:
    columns = list(_COLUMNS)
    while columns and sum(column.width for column in columns) > width:
        columns.pop()
    return columns
