"""The two top lines: what runs and how it is, then how full the pool is and what that costs.

Figures come from the view; one that is not known reads "–". Where a line is too short, the least telling go first.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.style import Style

from kvtop.app.lines import Line, Part, Span, between, fitted, fitting, line_width
from kvtop.app.scene import Scene
from kvtop.app.widgets.painted import Painted
from kvtop.view import figures
from kvtop.view.clean import clean_line
from kvtop.view.pool_view import PoolView
from kvtop.view.series import BIN_SECONDS
from kvtop.view.waste import measure_waste
from kvtop.view.words import UNKNOWN, count, duration, share, size

GAUGE = 20


class Headline(Painted):
    def __init__(self, scene: Scene, id: str) -> None:
        super().__init__(scene, id)
        self._forecast: tuple[tuple[PoolView | None, int], float | None] = ((None, 0), None)

    @property
    def moves_with_time(self) -> bool:
        return True

    def lines(self, width: int, height: int) -> Sequence[Line]:
        pool = fitted(self._pool_line(width), width, self.blank)
        if height < 2:
            return [pool]
        state = self._state()
        return [between(self._what_runs(width - line_width(state)), state, width, self.blank), pool]

    # --- the first line -------------------------------------------------------------------------------------------

    def _what_runs(self, width: int) -> Line:
        named, info = self.scene.palette.named, self.scene.view.info
        mark = ((" ◉", named.warning),) if self.scene.watch == "headline" else ()
        start = Part(0, (*mark, (" kvtop ", named.title)))
        if info is None:
            return start.spans
        settings = self.scene.view.settings
        policy = f" · {info.policy}" if info.policy != "paged" else ""
        preempt = settings.get("preempt", info.preempt)
        no_space: Line = ((" without space", named.warning),) if preempt == "swap" and not info.swap_blocks else ()
        device = "" if info.simulated else f"{info.device} "
        return fitting(
            [
                start,
                Part(1, ((f" {clean_line(info.model, 40)}", named.strong),)),
                Part(2, ((f" · {self.scene.listening}" if self.scene.listening else "", named.accent),)),
                Part(2, ((" ", named.text), (f" {self.scene.watched} ", named.badge)) if self.scene.watched else ()),
                Part(3, ((f" · {device}{_short(info.dtype)}", named.text),)),
                Part(4, ((f" · {info.block_size} tok × {size(info.kv_bytes_per_token)}", named.muted),)),
                Part(2, ((policy, named.warning),)),
                Part(5, ((f" · {preempt}", named.muted), *no_space)),
                Part(5, ((f", {settings.get('victim', info.victim)}", named.muted),)),
            ],
            width - 1,
        )

    def _state(self) -> list[Span]:
        named, feed, view = self.scene.palette.named, self.scene.feed, self.scene.view
        step = f"{view.step:,}" if view.info is not None else UNKNOWN
        spans: list[Span] = []
        if feed.tape is not None:
            step = f"{step} of {feed.tape.steps[1]:,}"
            spans.append(("recording  ", named.accent))
        if feed.in_past:
            step = f"{view.step:,} of {feed.live.step:,}"
            spans += [(" in the past ", named.badge), ("  ", named.text)]
        elif feed.frozen and self.scene.predict:
            spans += [(" what comes next? ", named.badge), ("  ", named.text)]
        elif feed.frozen:
            spans += [(f" view frozen, engine at step {feed.live.step:,} ", named.badge), ("  ", named.text)]
        elif view.incomplete_since is not None:
            spans += [(f" incomplete since event {view.incomplete_since:,} ", named.badge), ("  ", named.text)]
        recorded = self.scene.recording.size_bytes if self.scene.recording is not None else None
        if recorded is not None:
            spans += [("● ", named.bad), (f"{size(recorded)}  ", named.text)]
        words, style = self._state_words()
        spans += [(words, style), (f"  {'view at step' if feed.in_past else 'step'} {step}", named.text)]
        if self.size.width >= (100 if self._reserves else 70):  # the policy's name says more than the clock
            spans.append((time.strftime("  %H:%M:%S", time.localtime(self.scene.clock())), named.muted))
        return [*spans, (" ", named.text)]

    def _state_words(self) -> tuple[str, Style]:
        named, feed = self.scene.palette.named, self.scene.feed
        state = feed.status.state
        if (silence := feed.silence) is not None:
            computing = (f"▶ computing, {silence.seconds:.0f} s", named.good)
            return computing if silence.is_step else (f" no word for {silence.seconds:.0f} s ", named.badge)
        if state == "failed":
            return " server silent " if self.scene.watched else " engine died ", named.alarm
        if state in ("loading", "stopped"):
            return {"loading": "◌ loading", "stopped": "■ ended"}[state], named.warning
        if feed.paused:
            return " ‖ paused ", named.badge
        if feed.tape is not None:
            return "▶ plays", named.good
        if self.scene.watched and not feed.live.sequences:  # its exporter tells of steps, and idle servers take none
            return "◦ idle", named.muted
        if state == "idle":
            return f"◦ idle, {feed.status.detail}" if feed.status.detail else "◦ idle", named.muted
        return "▶ running", named.good

    @property
    def _reserves(self) -> bool:
        """The policy takes blocks for tokens that may never come: then it and its waste are what matters."""
        info = self.scene.view.info
        return info is not None and info.policy != "paged"

    # --- the second line ------------------------------------------------------------------------------------------

    def _pool_line(self, width: int) -> Line:
        view, named = self.scene.view, self.scene.palette.named
        info, now = view.info, view.wall_s if view.paused else self.scene.now_s  # rates stand, too, while it is paused
        blocks = count(info.num_blocks, "block") if info is not None else f"{UNKNOWN} blocks"
        memory = size(info.num_blocks * info.block_size * info.kv_bytes_per_token) if info is not None else UNKNOWN
        waste = measure_waste(view)
        wasted = _percent(waste.wasted_share if waste is not None else None, 1)
        thrown = figures.preemptions_per_minute(view, now)
        speed = figures.tokens_per_second(view, now)
        full_s = self._seconds_until_full(now)
        until_full = UNKNOWN if full_s is None else f"~{duration(full_s)}" if full_s else "now"
        per_minute = UNKNOWN if thrown is None else f"{thrown:.1f}/min"
        return fitting(
            [
                Part(0, ((" POOL", named.title),)),
                Part(2, ((f" {blocks}", named.strong),)),
                Part(9, ((f" {memory}", named.muted),)),
                Part(11, self._gauge()),
                Part(0, self._level("active", view.blocks.active, self._heat())),
                Part(3, self._level("cached", view.blocks.cached, named.text)),
                Part(0, self._level("free", view.blocks.free, named.text)),
                Part(2 if self._reserves else 6, self._figure("waste", wasted)),
                Part(10, self._figure("full in", until_full)),
                Part(1, self._figure("preempt", per_minute, named.bad if thrown else named.text)),
                Part(8, self._figure("hit", _percent(figures.hit_rate(view), 0))),
                Part(7, self._figure("", f"{speed:,.0f} tok/s" if speed is not None else f"{UNKNOWN} tok/s")),
            ],
            width - 1,
        )

    def _seconds_until_full(self, now: float) -> float | None:
        """The forecast, made anew only when the series it extends has moved on."""
        moment = (self.scene.view, int(now / BIN_SECONDS))
        if moment != self._forecast[0]:
            self._forecast = (moment, figures.seconds_until_full(self.scene.view, now))
        return self._forecast[1]

    def _level(self, name: str, blocks: int, style: Style) -> Line:
        named, view = self.scene.palette.named, self.scene.view
        return ((f"  {name} ", named.muted), (share(blocks, view.blocks.num_blocks), style))

    def _heat(self) -> Style:
        """The share that is held, calm or alarming."""
        named, blocks = self.scene.palette.named, self.scene.view.blocks
        full = blocks.active / blocks.num_blocks if blocks.num_blocks else 0
        return named.bad if full >= 0.95 else named.warning if full >= 0.8 else named.strong

    def _gauge(self) -> Line:
        palette, view = self.scene.palette, self.scene.view
        total = max(1, view.blocks.num_blocks)
        held = round(view.blocks.active / total * GAUGE)
        kept = min(GAUGE - held, round(view.blocks.cached / total * GAUGE))
        return (
            ("  ", palette.named.text),
            ("━" * held, palette.style_of("active", "background")),
            ("━" * kept, palette.style_of("cached", "background")),
            ("━" * (GAUGE - held - kept), palette.style_of("border", "background")),
        )

    def _figure(self, name: str, value: str, style: Style | None = None) -> Line:
        named = self.scene.palette.named
        return ((" │ ", named.faint), (f"{name} " if name else "", named.muted), (value, style or named.text))


def _percent(value: float | None, places: int) -> str:
    return UNKNOWN if value is None else f"{100 * value:.{places}f}%"


def _short(dtype: str) -> str:
    return {"bfloat16": "bf16", "float32": "fp32", "float16": "fp16"}.get(dtype, dtype)
