"""The event log: what the scheduler did and why, one line an event, newest below.

Only the lines in sight are put into words, so ten thousand events a second cost no more than ten. Routine ones are left
out until somebody asks for all. Older ones than the ring keeps are counted, not hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from rich.style import Style
from textual import events

from kvtop.app.actions import panel_bindings
from kvtop.app.lines import Line, Span, line_width, wrapped
from kvtop.app.scene import Scene
from kvtop.app.widgets.painted import Framed
from kvtop.engine import events as e
from kvtop.view.clean import width as cell_width
from kvtop.view.describe import describe
from kvtop.view.event_log import LogEntry, is_routine
from kvtop.view.words import who

INDENT = 9
"""How far in the second line of an event begins."""


class LogPanel(Framed, can_focus=True):
    """``back`` counts how many events the last line in sight is behind the newest; 0 follows them."""

    BINDINGS = panel_bindings("log")

    def __init__(self, scene: Scene, id: str) -> None:
        super().__init__(scene, id)
        self.back = 0
        self._total = 0

    def title(self) -> Sequence[Span]:
        named = self.scene.palette.named
        words: list[Span] = [("events", named.title)]
        if self.back:
            words.append((f" {self.back:,} newer below", named.warning))
        return words

    def figures(self) -> Sequence[Span]:
        named, log = self.scene.palette.named, self.scene.view.log
        kept = len(log.entries)
        if not log.total:
            return ()
        return [(f"{log.total:,}" + (f" · the last {kept:,} kept" if kept < log.total else ""), named.muted)]

    def content(self, width: int, height: int) -> Sequence[Line]:
        log = self.scene.view.log
        if self.back:  # stay at the same event while others arrive
            self.back += log.total - self._total
        self._total = log.total
        self.back = max(0, min(self.back, len(log.entries) - height))
        every = self.scene.all_events
        older = islice(reversed(log.entries), self.back, None)
        seen = list(islice((entry for entry in older if every or not is_routine(entry.event)), height))
        lines = [line for entry in reversed(seen) for line in self._lines_of(entry, width)]
        return lines[-height:]

    def _lines_of(self, entry: LogEntry, width: int) -> list[Line]:
        """One event; what is too long for one line goes on in the next, further in."""
        palette, view, event = self.scene.palette, self.scene.view, entry.event
        seq = getattr(event, "seq", 0)
        words, style = describe(event, view), self._style(event)
        verb, name, reasons = words.partition(who(view, seq)) if seq else (words, "", "")
        if not name:
            verb, gap, rest = words.partition(" ")
            reasons = gap + rest
        start: Line = (
            (f"{entry.step:>6,} ", palette.named.faint),
            (verb, style),
            (name, palette.owner_ink(view.slots.slot_of(seq)) if name else style),
        )
        told = palette.named.text if name else style
        if line_width(start) + cell_width(reasons) <= width or width < 2 * INDENT:
            return [(*start, (reasons, told))]
        room = max(0, width - line_width(start))
        at = reasons.rfind(" ", 0, room + 1)
        head, rest = reasons[: max(0, at)], reasons[max(0, at) :].strip()
        more = wrapped(rest, told, width - INDENT)
        return [(*start, (head, told)), *(((" " * INDENT, told), *line) for line in more)]

    def _style(self, event: e.AnyEvent) -> Style:
        named = self.scene.palette.named
        if isinstance(event, e.Preempted | e.Rejected):
            return named.bad
        if isinstance(event, e.Waits | e.Warned | e.CacheCleared):
            return named.warning
        if isinstance(event, e.Commanded | e.Changed):
            return named.accent
        if isinstance(event, e.Finished | e.Completed):
            return named.good
        return named.muted if is_routine(event) else named.text

    def scroll_back(self, lines: int) -> None:
        """Towards older events, or newer ones when negative."""
        self._total = self.scene.view.log.total
        self.back = max(0, self.back + lines)
        self.redraw()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.scroll_back(3)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.scroll_back(-3)
