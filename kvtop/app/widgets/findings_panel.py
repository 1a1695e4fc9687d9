"""What is worth a word: each finding with its evidence in numbers and what to do, then those that have passed.

The findings are made by ``kvtop.view.findings``, of the live engine whatever the other panels show.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual import events

from kvtop.app.actions import panel_bindings
from kvtop.app.lines import Line, Span
from kvtop.app.scene import Scene
from kvtop.app.widgets.finding_lines import past_line, standing_lines
from kvtop.app.widgets.painted import Framed
from kvtop.view.finding import Finding
from kvtop.view.words import duration


class FindingsPanel(Framed, can_focus=True):
    BINDINGS = panel_bindings("findings")

    def __init__(self, scene: Scene, id: str) -> None:
        super().__init__(scene, id)
        self.first_line = 0

    def scroll_text(self, lines: int) -> None:
        """Down, or up when negative; no further than the text goes."""
        self.first_line = max(0, self.first_line + lines)
        self.redraw()

    def title(self) -> Sequence[Span]:
        named, log = self.scene.palette.named, self.scene.feed.findings
        return [("findings", named.title), (f"  {len(log.standing)} now · {len(log.past)} passed", named.text)]

    def figures(self) -> Sequence[Span]:
        if not self.scene.feed.frozen:
            return ()
        return [("of the running engine, not of this moment", self.scene.palette.named.warning)]

    def content(self, width: int, height: int) -> Sequence[Line]:
        named, log = self.scene.palette.named, self.scene.feed.findings
        lines: list[Line] = []
        for finding in log.renew(self.scene.feed.live, self.scene.live_now_s):
            lines += [*self._standing(finding, width), ()]
        if not log.standing:
            lines += [((" ✓ ", named.good), ("nothing to find fault with", named.text)), ()]
        if log.past:
            lines.append(((" passed", named.title),))
            lines += [self._past(finding, width) for finding in reversed(log.past)]
        self.first_line = max(0, min(self.first_line, len(lines) - height))
        return lines[self.first_line :]

    def _standing(self, finding: Finding, width: int) -> list[Line]:
        since = f"since step {finding.since_step:,}, {duration(finding.lasted_s)}"
        return standing_lines(finding, since, self.scene.palette, width, self.scene.feed.live.step)

    def _past(self, finding: Finding, width: int) -> Line:
        when = f"from step {finding.since_step:,}, for {duration(finding.lasted_s)}"
        return past_line(finding, when, self.scene.palette, width)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.scroll_text(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.scroll_text(-3)
