"""The tabs of the live screen in a line, and how many findings stand."""

from __future__ import annotations

from collections.abc import Sequence

from kvtop.app.arrangement import Tab
from kvtop.app.widgets.painted import Painted
from kvtop.app.widgets.tab_strip import TabStrip

TABS: tuple[tuple[str, Tab, str], ...] = (
    ("1", "live", "live"),
    ("2", "requests", "requests"),
    ("3", "prefix", "prefix tree"),
    ("4", "lab", "policy lab"),
    ("5", "findings", "findings"),
)
"""Key, tab, title."""


class TabLine(TabStrip, Painted):
    def tabs(self) -> Sequence[tuple[str, str, str]]:
        return TABS

    def current(self) -> str:
        return self.scene.tab

    def mark(self, tab: str) -> str:
        standing = self.scene.feed.findings.standing
        return str(len(standing)) if tab == "findings" and standing else ""
