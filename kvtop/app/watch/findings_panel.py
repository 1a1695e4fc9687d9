"""What is worth a word about servers: each finding with its evidence and the setting to change, then what passed."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events

from kvtop.app.lines import Line, Span
from kvtop.app.watch.actions import watch_bindings
from kvtop.app.watch.scene import WatchScene
from kvtop.app.widgets.drawing import FramedDrawing
from kvtop.app.widgets.finding_lines import past_line, standing_lines
from kvtop.view.words import duration


class WatchFindings(FramedDrawing, can_focus=True):
    BINDINGS = watch_bindings("findings")
    scene: WatchScene

    def __init__(self, scene: WatchScene, id: str) -> None:
        super().__init__(scene, id)
        self.first_line = 0

    def scroll_rows(self, rows: int) -> None:
        self.first_line = max(0, self.first_line + rows)
        self.redraw()

    def title(self) -> Sequence[Span]:
        named, log = self.scene.palette.named, self.scene.log
        return [("findings", named.title), (f"  {len(log.standing)} now · {len(log.past)} passed", named.text)]

    def content(self, width: int, height: int) -> Sequence[Line]:
        named, log = self.scene.palette.named, self.scene.log
        lines: list[Line] = []
        for finding in log.standing:
            lines += standing_lines(finding, f" for {duration(finding.lasted_s)}", self.scene.palette, width)
        if not log.standing:
            lines.append(((" ✓ ", named.good), ("nothing to find fault with", named.text)))
        if log.past:
            lines += [(), ((" passed", named.title),)]
            lines += [
                past_line(finding, f" lasted {duration(finding.lasted_s)}", self.scene.palette, width)
                for finding in reversed(log.past)
            ]
        self.first_line = max(0, min(self.first_line, len(lines) - height))
        return lines[self.first_line :]

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.scroll_rows(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.scroll_rows(-3)
