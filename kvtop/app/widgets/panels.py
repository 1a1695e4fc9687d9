"""The space the panels share: places them by ``arrangement.py`` and knows which of them are in sight."""

from __future__ import annotations

from textual.layout import Layout
from textual.widget import Widget

from kvtop.app.arrangement import PanelLayout, arrange


class Panels(Widget):
    DEFAULT_CSS = "Panels { width: 1fr; height: 1fr; }"

    def __init__(self, *panels: Widget) -> None:
        super().__init__(*panels)
        self._panels = PanelLayout()

    @property
    def layout(self) -> Layout:
        return self._panels

    @property
    def decision(self) -> bool:
        """The decision path has a place."""
        return self._panels.decision

    @decision.setter
    def decision(self, wanted: bool) -> None:
        if wanted != self._panels.decision:
            self._panels.decision = wanted
            self.children[0].refresh(layout=True)  # a parent keeps its arrangement until a child asks for a new one

    def in_sight(self) -> list[str]:
        """Ids of the panels that have a place at this size, in the order of the keys."""
        regions = arrange(self.size.width, self.size.height, self._panels.decision)
        return [child.id for child in self.children if child.id in regions]
