"""The fleet as a table: a row a rank, a sum line that says how it was made; what is stale is grey and has its age."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.style import Style
from textual import events
from textual.message import Message

from kvtop.app.lines import Line, Span, fitted
from kvtop.app.palette import NamedStyles
from kvtop.app.watch.actions import watch_bindings
from kvtop.app.watch.scene import WatchScene
from kvtop.app.widgets.drawing import FramedDrawing
from kvtop.view import fleet_words as words
from kvtop.view.clean import fit
from kvtop.view.fleet import FleetRow, FleetTotal, imbalance
from kvtop.view.fleet_findings import where
from kvtop.view.words import UNKNOWN, count, duration

Subject = FleetRow | FleetTotal
GAUGE = 8


class _Column(NamedTuple):
    title: str
    width: int
    rank: int
    """The highest goes first where it is narrow; 0 stays."""
    value: Callable[[Subject], str]


def _quantiles(name: str) -> Callable[[Subject], str]:
    return lambda it: f"{words.time(it.quantile(name, 0.5))} {words.time(it.quantile(name, 0.95))}"


_COLUMNS = (
    _Column("usage", 7, 0, lambda it: words.share(it.usage)),
    _Column("run", 5, 0, lambda it: words.number(it.running)),
    _Column("wait", 5, 0, lambda it: words.number(it.waiting)),
    _Column("preempt/min", 12, 2, lambda it: words.number(it.preemptions_per_min, 1)),
    _Column("hit", 7, 3, lambda it: words.share(it.hit_rate)),
    _Column("in/s", 8, 4, lambda it: words.number(it.prompt_tokens_per_s)),
    _Column("out/s", 7, 1, lambda it: words.number(it.generated_tokens_per_s)),
    _Column("ttft p50 p95", 15, 5, _quantiles("ttft")),
    _Column("token p50 p95", 15, 6, _quantiles("inter_token")),
)
_DEPTH_WIDTH = 18
_STATE_WIDTH = 11


class _Plan(NamedTuple):
    """What has room at this width."""

    name: int
    depth: int
    columns: tuple[_Column, ...]
    gauge: bool


class FleetTable(FramedDrawing, can_focus=True):
    BINDINGS = watch_bindings("fleet")
    scene: WatchScene

    class Opened(Message):
        """A row was clicked that was chosen already."""

    def __init__(self, scene: WatchScene, id: str) -> None:
        super().__init__(scene, id)
        self.first_row = 0

    @property
    def moves_with_time(self) -> bool:
        return True

    def title(self) -> Sequence[Span]:
        named, scene = self.scene.palette.named, self.scene
        ranks = sum(bool(row.rank) for row in scene.rows)
        many = f"{count(len(scene.fleet.servers), 'server')} · {count(ranks, 'rank')}"
        return [("fleet", named.title), (f"  {many}", named.text)]

    def figures(self) -> Sequence[Span]:
        pair = imbalance(self.scene.rows)
        if pair is None or self.size.width < 70:
            return ()
        named = self.scene.palette.named
        style = named.warning if pair.spread >= 0.3 else named.muted
        return [
            ("spread ", named.muted),
            (f"{pair.spread:.0%}", style),
            (f", fullest {where(pair.fullest)}", named.muted),
        ]

    def note(self) -> Sequence[Span]:
        total, named = self.scene.total, self.scene.palette.named
        if len(self.scene.rows) < 2:
            return ()
        left = f" · {total.left_out} stale or silent, left out" if total.left_out else ""
        long = f"Σ adds requests, tokens, preemptions; usage {total.usage_how}; quantiles of all buckets{left}"
        return [(long if len(long) < self.size.width - 6 else f"Σ: usage {total.usage_how}{left}", named.muted)]

    def content(self, width: int, height: int) -> Sequence[Line]:
        scene = self.scene
        named, rows = scene.palette.named, scene.rows
        sums = len(rows) > 1
        shown = max(1, height - 1 - 2 * sums)
        at = scene.at
        self.first_row = max(0, min(max(self.first_row, at - shown + 1), at, len(rows) - 1))
        plan = _plan(width, max(len(where_short(row)) for row in rows))
        lines = [fitted(self._heading(plan), width, self.blank)]
        for index in range(self.first_row, min(len(rows), self.first_row + shown)):
            line = fitted(self._row(rows[index], scene.depth(scene.places[index]), plan), width, self.blank)
            if index == at:
                line = (("▌", named.focus), *line[1:])
                line = tuple((text, scene.palette.selected(style)) for text, style in line)
            lines.append(line)
        if sums:
            lines += [((" " + "─" * (width - 2), named.faint),), fitted(self._sum(plan), width, self.blank)]
        return lines

    def _heading(self, plan: _Plan) -> list[Span]:
        muted = self.scene.palette.named.muted
        depth = fit("depth", plan.depth) if plan.depth else ""
        spans = [(f" {fit('server, rank', plan.name)}{depth}{fit('state', _STATE_WIDTH)}", muted)]
        if plan.gauge:
            spans.append((" " * GAUGE, muted))
        return [*spans, *((f"{column.title:>{column.width}}", muted) for column in plan.columns)]

    def _row(self, row: FleetRow, depth: str, plan: _Plan) -> list[Span]:
        named = self.scene.palette.named
        stale = row.is_stale
        ink = named.faint if stale else named.text
        name = [(" ", ink), (fit(where_short(row), plan.name), named.muted if stale else named.strong)]
        if plan.depth:
            shown = {"true tables": named.good, "logical residency": named.accent}.get(depth, named.muted)
            name.append((fit(depth, plan.depth), named.faint if stale else shown))
        state = {"live": named.good, "late": named.warning, "connecting": named.muted}.get(row.state, named.bad)
        name.append((fit(_state(row), _STATE_WIDTH), named.bad if row.missing else state))
        return [*name, *self._figures(row, plan, ink, stale)]

    def _sum(self, plan: _Plan) -> list[Span]:
        named, total = self.scene.palette.named, self.scene.total
        room = plan.name + plan.depth + _STATE_WIDTH
        label = f"Σ {count(total.ranks, 'rank')}"
        return [(" " + fit(label, room), named.title), *self._figures(total, plan, named.strong, False)]

    def _figures(self, subject: Subject, plan: _Plan, ink: Style, stale: bool) -> list[Span]:
        named = self.scene.palette.named
        spans: list[Span] = self._gauge(subject.usage, stale) if plan.gauge else []
        for column in plan.columns:
            style = ink
            if not stale:
                style = _alarm(column.title, subject, named) or ink
            spans.append((f"{column.value(subject):>{column.width}}", style))
        return spans

    def _gauge(self, usage: float | None, stale: bool) -> list[Span]:
        palette = self.scene.palette
        full = round((usage or 0) * (GAUGE - 1))
        ink = palette.named.faint if stale else palette.style_of("active", "background")
        return [("━" * full, ink), ("━" * (GAUGE - 1 - full), palette.style_of("border", "background")), (" ", ink)]

    def on_mouse_down(self, event: events.MouseDown) -> None:
        at = self.first_row + event.y - 2
        if event.y >= 2 and at < len(self.scene.rows):
            if at == self.scene.at:
                self.post_message(self.Opened())
            self.scene.place = self.scene.places[at]
            self.redraw()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.scene.move(3)
        self.redraw()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.scene.move(-3)
        self.redraw()


def where_short(row: FleetRow) -> str:
    return f"{row.server} · {row.rank}" if row.rank else row.server


def _state(row: FleetRow) -> str:
    """One word, with an age where what is shown is old."""
    if row.missing:
        return f"gone {_age(row.age_s)}"
    if row.state in ("live", "connecting") or row.age_s is None:
        return row.state
    return f"{row.state} {_age(row.age_s)}"


def _age(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else f"{seconds:.0f} s" if seconds < 1000 else duration(seconds)


def _alarm(title: str, subject: Subject, named: NamedStyles) -> Style | None:
    """The colour of a figure that wants to be seen."""
    if title == "usage" and subject.usage is not None:
        return named.bad if subject.usage >= 0.95 else named.warning if subject.usage >= 0.8 else None
    if title == "wait" and subject.waiting:
        return named.warning
    if title == "preempt/min" and subject.preemptions_per_min:
        return named.bad
    return None


def _plan(width: int, longest_name: int) -> _Plan:
    """Columns go by rank until the rest has room, then the depth's, then the gauge; the name takes what is left."""
    columns = list(_COLUMNS)
    name = max(14, min(longest_name + 2, 44))
    depth, gauge = _DEPTH_WIDTH, True

    def used() -> int:
        return 2 + name + depth + _STATE_WIDTH + GAUGE * gauge + sum(column.width for column in columns)

    if used() > width and name > 20:
        name = max(20, name - (used() - width))
    while used() > width and any(column.rank > 3 for column in columns):
        columns.remove(max(columns, key=lambda column: column.rank))
    if used() > width:
        gauge = False
    if used() > width:
        depth = 0
    while used() > width and any(column.rank for column in columns):
        columns.remove(max(columns, key=lambda column: column.rank))
    return _Plan(name, depth, tuple(columns), gauge)
