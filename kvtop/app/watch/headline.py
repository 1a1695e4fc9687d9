"""The top lines over watched servers: what is looked at, at which depth, how fresh it is; then the pool in figures."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.style import Style

from kvtop.app.lines import Line, Part, Span, between, fitted, fitting, line_width
from kvtop.app.watch.scene import WatchScene
from kvtop.app.widgets.drawing import Drawing
from kvtop.view import fleet_words as words
from kvtop.view.fleet import FleetRow, FleetTotal
from kvtop.view.words import UNKNOWN, count

GAUGE = 20


class WatchHeadline(Drawing):
    scene: WatchScene

    @property
    def moves_with_time(self) -> bool:
        return True

    def what(self) -> list[Part]:
        """What is looked at, for the left end of the first line."""
        return []

    def how(self) -> list[Span]:
        """How it is, for the right end."""
        return []

    def subject(self) -> FleetRow | FleetTotal:
        """Whose figures stand in the second line."""
        return self.scene.total

    def lines(self, width: int, height: int) -> Sequence[Line]:
        figures = fitted(self._figures(width), width, self.blank)
        if height < 2:
            return [figures]
        named = self.scene.palette.named
        right = self.how()
        recording = self.scene.recording
        if recording is not None:
            here, end = (time.strftime("%H:%M:%S", time.localtime(at)) for at in (recording.now_s(), recording.end_s))
            mark = ("▶ plays ", named.good) if recording.playing else (" ‖ paused ", named.badge)
            right = [("recording  ", named.accent)] if width >= 70 else []
            right += [mark, (f" {here} of {end}" if width >= 70 else f" {here}", named.text)]
        elif width >= 70:
            right.append((time.strftime("  %H:%M:%S", time.localtime(self.scene.clock())), named.muted))
        right.append((" ", named.text))
        left = fitting([Part(0, ((" kvtop ", named.title),)), *self.what()], width - line_width(right) - 1)
        return [between(left, right, width, self.blank), figures]

    def _figures(self, width: int) -> Line:
        named, subject = self.scene.palette.named, self.subject()
        usage, thrown = subject.usage, subject.preemptions_per_min
        heat = named.strong
        if usage is not None and usage >= 0.8:
            heat = named.bad if usage >= 0.95 else named.warning
        per_minute = UNKNOWN if thrown is None else f"{thrown:.1f}/min"
        waiting = named.warning if subject.waiting else named.text
        first_tokens = f"{words.time(subject.quantile('ttft', 0.5))} {words.time(subject.quantile('ttft', 0.95))}"
        return fitting(
            [
                Part(0, ((" POOL", named.title),)),
                Part(2, self._pool_size(subject)),
                Part(9, self._gauge(usage)),
                Part(0, (("  usage ", named.muted), (words.share(usage), heat))),
                Part(0, (("  run ", named.muted), (words.number(subject.running), named.text))),
                Part(0, (("  wait ", named.muted), (words.number(subject.waiting), waiting))),
                Part(6, self._reasons(subject)),
                Part(1, self._figure("preempt", per_minute, named.bad if thrown else named.text)),
                Part(4, self._figure("hit", words.share(subject.hit_rate))),
                Part(5, self._figure("in", f"{words.number(subject.prompt_tokens_per_s)} tok/s")),
                Part(3, self._figure("out", f"{words.number(subject.generated_tokens_per_s)} tok/s")),
                Part(7, self._figure("ttft", first_tokens)),
            ],
            width - 1,
        )

    def _pool_size(self, subject: FleetRow | FleetTotal) -> Line:
        if isinstance(subject, FleetTotal):
            return ()
        blocks = words.number(subject.num_blocks)
        return ((f" {blocks} blocks × {words.number(subject.block_size)} tok", self.scene.palette.named.strong),)

    def _reasons(self, subject: FleetRow | FleetTotal) -> Line:
        told = words.reasons(subject) if isinstance(subject, FleetRow) else ""
        return ((f" ({told})", self.scene.palette.named.muted),) if told else ()

    def _gauge(self, usage: float | None) -> Line:
        palette = self.scene.palette
        held = round((usage or 0) * GAUGE)
        return (
            ("  ", palette.named.text),
            ("━" * held, palette.style_of("active", "background")),
            ("━" * (GAUGE - held), palette.style_of("border", "background")),
        )

    def _figure(self, name: str, value: str, style: Style | None = None) -> Line:
        named = self.scene.palette.named
        return ((" │ ", named.faint), (f"{name} ", named.muted), (value, style or named.text))


class FleetHeadline(WatchHeadline):
    def what(self) -> list[Part]:
        named, scene = self.scene.palette.named, self.scene
        return [
            Part(1, ((f" fleet of {count(len(scene.fleet.servers), 'server')}", named.strong),)),
            Part(2, ((f" · {count(sum(bool(row.rank) for row in scene.rows), 'rank')}", named.text),)),
        ]

    def how(self) -> list[Span]:
        named, scene = self.scene.palette.named, self.scene
        live = sum(row.state == "live" and not row.missing for row in scene.rows)
        style = named.good if live == len(scene.rows) else named.warning
        return [(f"● {live} of {len(scene.rows)} live", style)]


class ServerHeadline(WatchHeadline):
    def subject(self) -> FleetRow | FleetTotal:
        return self.scene.row

    def what(self) -> list[Part]:
        named, row = self.scene.palette.named, self.scene.row
        depth, place = self.scene.shown_depth, self.scene.place
        deeper = " · m true tables" if self.scene.depth(place) == "true tables" else ""
        return [
            Part(1, ((f" {row.server}", named.strong),)),
            Part(2, ((f" rank {row.rank}" if row.rank else "", named.text),)),
            Part(4, ((f" · {row.model}" if row.model else "", named.text),)),
            Part(0, ((" ", named.text), (f" {depth} ", named.badge))),
            Part(5, ((deeper, named.accent),)),
        ]

    def how(self) -> list[Span]:
        named, row = self.scene.palette.named, self.scene.row
        shown = words.state(row)
        if row.is_stale:
            return [(f" {shown} ", named.alarm)]
        return [(f"● {shown}", named.good if row.state == "live" else named.warning)]
