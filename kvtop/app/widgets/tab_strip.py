"""Tabs in a line: which there are, and which one is shown. A click opens one."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message

from kvtop.app.lines import Line, Span, fitted, line_width
from kvtop.app.widgets.drawing import Drawing


class TabStrip(Drawing):
    class Opened(Message):
        def __init__(self, tab: str) -> None:
            self.tab = tab
            super().__init__()

    _places: Sequence[tuple[int, int, str]] = ()
    """First column, column after the last, tab."""

    def tabs(self) -> Sequence[tuple[str, str, str]]:
        """Key, tab and title of each."""
        return ()

    def current(self) -> str:
        return ""

    def mark(self, tab: str) -> str:
        """A word behind a tab's title that wants to be seen."""
        return ""

    def lines(self, width: int, height: int) -> Sequence[Line]:
        palette = self.scene.palette
        named = palette.named
        spans: list[Span] = []
        places = []
        for key, tab, title in self.tabs():
            begin = line_width(spans)
            here = tab == self.current()
            words: list[Span] = [(f" {key} ", named.accent), (f"{title} ", named.strong if here else named.muted)]
            if mark := self.mark(tab):
                words.append((f"{mark} ", named.warning))
            spans += [(text, palette.selected(style)) for text, style in words] if here else words
            places.append((begin, line_width(spans), tab))
            spans.append((" ", self.blank))
        self._places = places
        return [fitted(spans, width, self.blank)]

    def on_mouse_down(self, event: events.MouseDown) -> None:
        for start, end, tab in self._places:
            if start <= event.x < end:
                self.post_message(self.Opened(tab))
