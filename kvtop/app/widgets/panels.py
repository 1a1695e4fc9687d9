"""The space the panels share: places them by ``arrangement.py`` and knows which of them are in sight."""

from __future__ import annotations

from textual.layout import Layout
from textual.widget import Widget

from kvtop.app.arrangement import PanelLayout, Tab, arrange


class Panels(Widget):
    DEFAULT_CSS = "Panels { width: 1fr; height: 1fr; }"

    def __init__(self, *panels: Widget) -> None:
        super().__init__(*panels)
        self._panels = PanelLayout()

    @property
    def layout(self) -> Layout:
        return self._panels

    def show(self, tab: Tab, extras: tuple[str, ...], watch: str = "") -> None:
        """Give a place to the panels of a tab, to those that were asked for, and to the one a lesson points at."""
        panels = self._panels
        if (tab, extras, watch) != (panels.tab, panels.extras, panels.watch):
            panels.tab, panels.extras, panels.watch = tab, extras, watch
            for child in self.children[:1]:  # none yet: it will be arranged when they come
                child.refresh(layout=True)  # a parent keeps its arrangement until a child asks for a new one

    def in_sight(self) -> list[str]:
        """Ids of the panels that have a place at this size, in the order of the keys."""
        panels = self._panels
        regions = arrange(self.size.width, self.size.height, panels.extras, panels.tab, panels.watch)
        return [child.id for child in self.children if child.id in regions]
