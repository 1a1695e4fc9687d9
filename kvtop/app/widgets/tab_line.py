"""The tabs in a line: which there are, which one is shown, and how many findings stand. A click opens one."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message

from kvtop.app.arrangement import Tab
from kvtop.app.lines import Line, Span, fitted, line_width
from kvtop.app.scene import Scene
from kvtop.app.widgets.painted import Painted

TABS: tuple[tuple[str, Tab, str], ...] = (
    ("1", "live", "live"),
    ("2", "requests", "requests"),
    ("3", "prefix", "prefix tree"),
    ("5", "findings", "findings"),
)
"""Key, tab, title."""


class TabLine(Painted):
    class Opened(Message):
        def __init__(self, tab: Tab) -> None:
            self.tab = tab
            super().__init__()

    def __init__(self, scene: Scene, id: str) -> None:
        super().__init__(scene, id)
        self._places: list[tuple[int, int, Tab]] = []
        """First column, column after the last, tab."""

    def lines(self, width: int, height: int) -> Sequence[Line]:
        palette = self.scene.palette
        named = palette.named
        spans: list[Span] = []
        self._places = []
        for key, tab, title in TABS:
            begin = line_width(spans)
            here = tab == self.scene.tab
            words: list[Span] = [(f" {key} ", named.accent), (f"{title} ", named.strong if here else named.muted)]
            if tab == "findings" and (standing := self.scene.feed.findings.standing):
                words.append((f"{len(standing)} ", named.warning))
            spans += [(text, palette.selected(style)) for text, style in words] if here else words
            self._places.append((begin, line_width(spans), tab))
            spans.append((" ", self.blank))
        return [fitted(spans, width, self.blank)]

    def on_mouse_down(self, event: events.MouseDown) -> None:
        for start, end, tab in self._places:
            if start <= event.x < end:
                self.post_message(self.Opened(tab))
