"""Latencies by phase over the window: p50, p90, p99, and the share that kept the limit that was set for it."""

from __future__ import annotations

from collections.abc import Sequence

from kvtop.app.lines import Line, Span, fitted
from kvtop.app.watch.scene import WatchScene
from kvtop.app.widgets.drawing import FramedDrawing
from kvtop.view import fleet_words as words
from kvtop.view.server_advice import WANTED_SHARE
from kvtop.view.server_facts import PHASES, LatencyFacts, latencies
from kvtop.view.words import UNKNOWN, duration

_WIDTHS = (13, 7, 7, 7, 7, 7)


class LatencyPanel(FramedDrawing, can_focus=True):
    scene: WatchScene

    def title(self) -> Sequence[Span]:
        named, row = self.scene.palette.named, self.scene.row
        span = f" over the last {duration(row.span_s)}" if row.span_s else ""
        return [("latency", named.title), (span, named.muted)]

    def note(self) -> Sequence[Span]:
        return [("quantiles from the server's buckets", self.scene.palette.named.muted)]

    def content(self, width: int, height: int) -> Sequence[Line]:
        named = self.scene.palette.named
        titles = ("phase", "p50", "p90", "p99", "mean", "count")
        heading = "".join(
            f" {title:<{cells - 1}}" if title == "phase" else f"{title:>{cells}}"
            for title, cells in zip(titles, _WIDTHS, strict=True)
        )
        lines = [fitted([(f"{heading} within", named.muted)], width, self.blank)]
        for facts in latencies(self.scene.row, self.scene.slo):
            lines.append(fitted(self._row(facts), width, self.blank))
        return lines

    def _row(self, facts: LatencyFacts) -> list[Span]:
        named = self.scene.palette.named
        ink = named.faint if self.scene.row.is_stale or not facts.count else named.text
        told = [words.time(facts.p50), words.time(facts.p90), words.time(facts.p99), words.seconds(facts.mean_s)]
        figures = "".join(f"{text:>{cells}}" for text, cells in zip(told, _WIDTHS[1:], strict=False))
        return [
            (f" {PHASES[facts.name]:<{_WIDTHS[0] - 1}}", named.muted),
            (figures, ink),
            (f"{words.number(facts.count):>{_WIDTHS[-1]}}", named.muted),
            *self._within(facts),
        ]

    def _within(self, facts: LatencyFacts) -> list[Span]:
        named = self.scene.palette.named
        if facts.limit_s is None:
            return []
        kept = UNKNOWN if facts.within is None else f"{facts.within:.0%}"
        style = named.muted if facts.within is None else named.good if facts.within >= WANTED_SHARE else named.bad
        return [(f"{kept:>5}", style), (f" in {facts.limit_s:g} s", named.muted)]
