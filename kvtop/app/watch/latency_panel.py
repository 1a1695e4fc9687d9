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

PHASE = 13
FIGURE = 7
"""Widths of the columns."""
ALL_COLUMNS_FROM = 64
"""Narrower, the mean goes."""


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
        wide = width >= ALL_COLUMNS_FROM
        titles = ("phase", "p50", "p90", "p99", *(("mean",) if wide else ()), "count")
        heading = "".join(f" {title:<{PHASE - 1}}" if title == "phase" else f"{title:>{FIGURE}}" for title in titles)
        lines = [fitted([(f"{heading} within", named.muted)], width, self.blank)]
        for facts in latencies(self.scene.row, self.scene.slo):
            lines.append(fitted(self._row(facts, wide), width, self.blank))
        return lines

    def _row(self, facts: LatencyFacts, wide: bool) -> list[Span]:
        named = self.scene.palette.named
        ink = named.faint if self.scene.row.is_stale or not facts.count else named.text
        told = [words.time(facts.p50), words.time(facts.p90), words.time(facts.p99)]
        if wide:
            told.append(words.seconds(facts.mean_s))
        figures = "".join(f"{text:>{FIGURE}}" for text in told)
        return [
            (f" {PHASES[facts.name]:<{PHASE - 1}}", named.muted),
            (figures, ink),
            (f"{words.number(facts.count):>{FIGURE}}", named.muted),
            *self._within(facts),
        ]

    def _within(self, facts: LatencyFacts) -> list[Span]:
        named = self.scene.palette.named
        if facts.limit_s is None:
            return []
        kept = UNKNOWN if facts.within is None else f"{facts.within:.0%}"
        style = named.muted if facts.within is None else named.good if facts.within >= WANTED_SHARE else named.bad
        return [(f"{kept:>5}", style), (f" in {facts.limit_s:g} s", named.muted)]
