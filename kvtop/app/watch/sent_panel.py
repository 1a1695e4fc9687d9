"""The requests that were sent from here to this server: how far each is, what it said last, why it failed."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events

from kvtop.app.lines import Line, Span, fitted, wrapped
from kvtop.app.watch.actions import watch_bindings
from kvtop.app.watch.scene import WatchScene
from kvtop.app.widgets.drawing import FramedDrawing
from kvtop.attach.traffic import SentRequest
from kvtop.view.clean import clean_line, fit
from kvtop.view.words import UNKNOWN, duration


class SentPanel(FramedDrawing, can_focus=True):
    BINDINGS = watch_bindings("sent")
    scene: WatchScene

    def __init__(self, scene: WatchScene, id: str) -> None:
        super().__init__(scene, id)
        self.first_row = 0
        self.chosen = ""
        """The chosen request's id."""

    @property
    def moves_with_time(self) -> bool:
        return True

    def rows(self) -> list[SentRequest]:
        """The newest first."""
        traffic = self.scene.traffic
        return list(reversed(traffic.sent.values())) if traffic is not None else []

    def move(self, step: int) -> None:
        rows = self.rows()
        if rows:
            at = next((index for index, row in enumerate(rows) if row.id == self.chosen), -1)
            self.chosen = rows[max(0, min(len(rows) - 1, at + step))].id
            self.redraw()

    def title(self) -> Sequence[Span]:
        named, traffic = self.scene.palette.named, self.scene.traffic
        going = traffic.under_way if traffic is not None else 0
        over = len(self.rows()) - going
        return [("sent from here", named.title), (f"  {going} under way · {over} over", named.text)]

    def content(self, width: int, height: int) -> Sequence[Line]:
        named, rows = self.scene.palette.named, self.rows()
        if not rows:
            where = self.scene.row.server
            return [((" ", named.text), *line) for line in
                    wrapped(f"Nothing was sent to {where} from here: press i.", named.muted, width - 2)]  # fmt: skip
        shown = max(1, height - 1)
        at = next((index for index, row in enumerate(rows) if row.id == self.chosen), 0)
        self.first_row = max(0, min(max(self.first_row, at - shown + 1), at))
        heading = f"  {'request':<12}{'state':<10}{'first in':>10}{'tokens':>8}{'tok/s':>8}  answer"
        lines = [fitted([(heading, named.muted)], width, self.blank)]
        for row in rows[self.first_row : self.first_row + shown]:
            line = fitted(self._row(row, max(0, width - 52)), width, self.blank)
            if row.id == self.chosen:
                line = (("▌", named.focus), *line[1:])
                line = tuple((text, self.scene.palette.selected(style)) for text, style in line)
            lines.append(line)
        return lines

    def _row(self, row: SentRequest, room: int) -> list[Span]:
        named = self.scene.palette.named
        style = {"streams": named.good, "failed": named.bad, "aborted": named.warning}.get(row.state, named.muted)
        first = duration(row.first_s - row.due_s) if row.first_s is not None else UNKNOWN
        speed = row.tokens_per_s
        text = row.error or row.text[-room:]
        return [
            (f"  {fit(clean_line(row.id, 40), 11)} ", named.strong),
            (fit(row.state, 10), style),
            (f"{first:>10}{row.tokens:>8,}{UNKNOWN if speed is None else f'{speed:.1f}':>8}  ", named.text),
            (text, named.bad if row.error else named.muted),
        ]

    def on_mouse_down(self, event: events.MouseDown) -> None:
        rows, at = self.rows(), self.first_row + event.y - 2
        if event.y >= 2 and at < len(rows):
            self.chosen = rows[at].id
            self.redraw()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.move(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.move(-3)
