"""What is worth a word about servers: each finding with its evidence and the setting to change, then what passed."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events

from kvtop.app.lines import Line, Span, between, wrapped
from kvtop.app.watch.actions import watch_bindings
from kvtop.app.watch.scene import WatchScene
from kvtop.app.widgets.drawing import FramedDrawing
from kvtop.view.finding import Finding
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
            lines += self._standing(finding, width)
        if not log.standing:
            lines.append(((" ✓ ", named.good), ("nothing to find fault with", named.text)))
        if log.past:
            lines += [(), ((" passed", named.title),)]
            lines += [self._past(finding, width) for finding in reversed(log.past)]
        self.first_line = max(0, min(self.first_line, len(lines) - height))
        return lines[self.first_line :]

    def _standing(self, finding: Finding, width: int) -> list[Line]:
        named, case = self.scene.palette.named, finding.case
        style = {"problem": named.bad, "warning": named.warning}.get(case.weight, named.accent)
        since = ((f" for {duration(finding.lasted_s)} ", named.muted),)
        evidence = [(("   ", self.blank), *line) for line in wrapped(case.evidence, named.text, width - 4)]
        advice = wrapped(case.advice, named.accent, width - 6)
        return [
            between(((" ● ", style), (case.headline, named.strong)), since, width, self.blank),
            *evidence,
            (("   → ", named.accent), *advice[0]),
            *((("     ", self.blank), *line) for line in advice[1:]),
        ]

    def _past(self, finding: Finding, width: int) -> Line:
        named = self.scene.palette.named
        when = ((f" lasted {duration(finding.lasted_s)} ", named.muted),)
        return between(((" ✓ ", named.good), (finding.case.headline, named.muted)), when, width, self.blank)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.scroll_rows(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.scroll_rows(-3)
