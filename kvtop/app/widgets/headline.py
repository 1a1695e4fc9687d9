"""The two top lines: what runs and how it is, then how full the pool is and what that costs.

Figures come from the view; one that is not known reads "–". Where a line is too short, the least telling go first.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from rich.style import Style

from kvtop.app.lines import Line, Span, between, line_width
from kvtop.app.widgets.painted import Painted
from kvtop.view.clean import clean_line
from kvtop.view.series import Column

UNKNOWN = "–"
GAUGE = 20
SPEED_SECONDS = 10
PREEMPT_SECONDS = 60


class Headline(Painted):
    def lines(self, width: int, height: int) -> Sequence[Line]:
        pool = self._pool_line(width)
        if height < 2:
            return [pool]
        state = self._state()
        return [between(self._what_runs(width - line_width(state)), state, width, self.blank), pool]

    # --- the first line -------------------------------------------------------------------------------------------

    def _what_runs(self, width: int) -> Line:
        named, info = self.scene.palette.named, self.scene.view.info
        start: list[Span] = [(" kvtop ", named.title)]
        if info is None:
            return tuple(start)
        settings = self.scene.view.settings
        facts: list[Span] = [
            (f" {clean_line(info.model, 40)}", named.strong),
            (f" · {info.device} {_short(info.dtype)}", named.text),
            (f" · {info.block_size} tok × {_bytes(info.kv_bytes_per_token)}", named.muted),
            (f" · {settings.get('preempt', info.preempt)}, {settings.get('victim', info.victim)}", named.muted),
        ]
        if info.policy != "paged":
            facts.append((f" · {info.policy}", named.warning))
        while facts and line_width([*start, *facts]) > width - 1:
            facts.pop()
        return (*start, *facts)

    def _state(self) -> list[Span]:
        named, feed, view = self.scene.palette.named, self.scene.feed, self.scene.view
        step = f"{view.step:,}" if view.info is not None else UNKNOWN
        spans: list[Span] = []
        if feed.frozen:
            spans += [(f" view frozen, engine at step {feed.live.step:,} ", named.badge), ("  ", named.text)]
        elif view.incomplete_since is not None:
            spans += [(f" incomplete since event {view.incomplete_since:,} ", named.badge), ("  ", named.text)]
        words, style = self._state_words()
        spans += [(words, style), (f"  step {step}", named.text)]
        if self.size.width >= 70:
            spans.append((time.strftime("  %H:%M:%S", time.localtime(self.scene.clock())), named.muted))
        return [*spans, (" ", named.text)]

    def _state_words(self) -> tuple[str, Style]:
        named, feed = self.scene.palette.named, self.scene.feed
        state = feed.status.state
        if feed.stale_s is not None:
            return f" no word for {feed.stale_s:.0f} s ", named.badge
        if state == "failed":
            return " engine died ", named.alarm
        if state in ("loading", "stopped"):
            return {"loading": "◌ loading", "stopped": "■ ended"}[state], named.warning
        if feed.live.paused or state == "paused":
            return " ‖ paused ", named.badge
        return ("◦ idle", named.muted) if state == "idle" else ("▶ running", named.good)

    # --- the second line ------------------------------------------------------------------------------------------

    def _pool_line(self, width: int) -> Line:
        named, info = self.scene.palette.named, self.scene.view.info
        blocks = f"{info.num_blocks:,} blocks" if info is not None else f"{UNKNOWN} blocks"
        size = f" {_bytes(info.num_blocks * info.block_size * info.kv_bytes_per_token)}" if info is not None else ""
        head: list[Span] = [(" POOL ", named.title), (blocks, named.strong), (size, named.muted), ("  ", named.text)]
        levels = self._levels()
        figures = self._figures()
        gauge = self._gauge() if width >= 132 else []
        while figures and line_width([*head, *gauge, *levels, *(s for f in figures for s in f)]) > width - 1:
            figures.pop()
        spans = [*head, *gauge, *levels]
        if line_width(spans) > width:
            spans = [head[0], *levels]
        for figure in figures:
            spans += figure
        return tuple(spans)

    def _levels(self) -> list[Span]:
        palette, view = self.scene.palette, self.scene.view
        named, total = palette.named, view.blocks.num_blocks
        if view.info is None or not total:
            return [(f"active {UNKNOWN}  cached {UNKNOWN}  free {UNKNOWN}", named.muted)]
        blocks = view.blocks
        full = blocks.active / total
        heat = named.bad if full >= 0.95 else named.warning if full >= 0.8 else named.strong
        return [
            ("active ", named.muted), (f"{full:.0%}", heat),
            ("  cached ", named.muted), (f"{blocks.cached / total:.0%}", named.text),
            ("  free ", named.muted), (f"{blocks.free / total:.0%}", named.text),
        ]  # fmt: skip

    def _gauge(self) -> list[Span]:
        palette, view = self.scene.palette, self.scene.view
        total = view.blocks.num_blocks
        if view.info is None or not total:
            return []
        held = round(view.blocks.active / total * GAUGE)
        kept = min(GAUGE - held, round(view.blocks.cached / total * GAUGE))
        return [
            ("━" * held, palette.style_of("active", "background")),
            ("━" * kept, palette.style_of("cached", "background")),
            ("━" * (GAUGE - held - kept), palette.style_of("border", "background")),
            ("  ", palette.named.text),
        ]

    def _figures(self) -> list[list[Span]]:
        """The rest of the line, the most telling first."""
        view, now = self.scene.view, self.scene.now_s
        thrown = view.series.gained(Column.PREEMPTIONS, now, PREEMPT_SECONDS)
        made = view.series.gained(Column.GENERATED, now, SPEED_SECONDS)
        totals = view.counters
        hit = totals.prefix_hit_tokens / totals.prefix_queried_tokens if totals.prefix_queried_tokens else None
        per_minute = 60 * thrown[0] / thrown[1] if thrown else None
        named = self.scene.palette.named
        return [
            self._figure("waste", f"{waste:.1%}" if (waste := self._waste()) is not None else UNKNOWN),
            self._figure("full in", self._full_in(now)),
            self._figure(
                "preempt",
                f"{per_minute:.1f}/min" if per_minute is not None else UNKNOWN,
                named.bad if per_minute else named.text,
            ),
            self._figure("hit", f"{hit:.0%}" if hit is not None else UNKNOWN),
            self._figure("", f"{made[0] / made[1]:,.0f} tok/s" if made else f"{UNKNOWN} tok/s"),
        ]

    def _figure(self, name: str, value: str, style: Style | None = None) -> list[Span]:
        named = self.scene.palette.named
        return [(" │ ", named.faint), (f"{name} " if name else "", named.muted), (value, style or named.text)]

    def _waste(self) -> float | None:
        """Share of the held slots that hold no token."""
        view = self.scene.view
        held = view.blocks.ref_counts > 0
        slots = view.blocks.active * view.block_size
        return 1 - float(np.sum(view.blocks.fills, where=held)) / slots if slots else None

    def _full_in(self, now: float) -> str:
        view = self.scene.view
        grown = view.series.gained(Column.ACTIVE, now, SPEED_SECONDS)
        if grown is None:
            return UNKNOWN
        left = view.blocks.num_blocks - view.blocks.active
        if grown[0] <= 0:
            return "now" if not left else "–"
        seconds = left * grown[1] / grown[0]
        return f"~{seconds:,.0f} s" if seconds < 120 else f"~{seconds / 60:,.0f} min" if seconds < 7200 else "hours"


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:,.0f} {unit}" if count >= 100 or count == int(count) else f"{count:,.1f} {unit}"
        count /= 1024
    return UNKNOWN


def _short(dtype: str) -> str:
    return {"bfloat16": "bf16", "float32": "fp32", "float16": "fp16"}.get(dtype, dtype)
