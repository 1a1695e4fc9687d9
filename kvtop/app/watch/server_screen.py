"""One rank of one server: what its metrics tell, what its KV events tell, what is worth a word.

Its true tables are a screen of their own, the live one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from textual import on

from kvtop.app.actions.action import Action
from kvtop.app.watch.actions import ANYWHERE, READING, SERVER, bindings_of
from kvtop.app.watch.capacity_panel import CapacityPanel
from kvtop.app.watch.chart_panel import ChartPanel
from kvtop.app.watch.findings_panel import WatchFindings
from kvtop.app.watch.headline import ServerHeadline
from kvtop.app.watch.latency_panel import LatencyPanel
from kvtop.app.watch.places import Places, arrange_server
from kvtop.app.watch.residency_panels import ContentPanel, TierPanel
from kvtop.app.watch.scene import WatchScene, WatchTab
from kvtop.app.watch.screen import Setting, WatchScreen
from kvtop.app.watch.shape_panel import ShapePanel
from kvtop.app.widgets.key_line import KeyLine
from kvtop.app.widgets.tab_strip import TabStrip

TABS: tuple[tuple[str, WatchTab, str], ...] = (
    ("1", "metrics", "metrics"),
    ("3", "prefix", "logical residency"),
    ("5", "findings", "findings"),
)
"""Key, tab, title."""


class ServerTabs(TabStrip):
    scene: WatchScene

    def tabs(self) -> Sequence[tuple[str, str, str]]:
        tables = (("m", "tables", "true tables"),) if self.scene.depth(self.scene.place) == "true tables" else ()
        return (*TABS, *tables)

    def current(self) -> str:
        return self.scene.tab

    def mark(self, tab: str) -> str:
        standing = self.scene.log.standing
        return str(len(standing)) if tab == "findings" and standing else ""


class ServerKeys(KeyLine):
    """Offers what this server allows."""

    scene: WatchScene

    def label(self, action: Action[Any]) -> str:
        if action.name == "tables" and self.scene.depth(self.scene.place) != "true tables":
            return ""
        if action.name == "back" and len(self.scene.rows) < 2:
            return ""
        return {"back": "fleet"}.get(action.name, super().label(action))


class ServerScreen(WatchScreen):
    """``open_tables`` shows the true tables of the chosen rank; ``leave`` goes back to the fleet."""

    BINDINGS = bindings_of(SERVER)
    main_panel = "latency"

    def __init__(
        self, scene: WatchScene, setting: Setting, open_tables: Callable[[], None], leave: Callable[[], None]
    ) -> None:
        super().__init__(scene, setting, (*SERVER, *READING, *ANYWHERE))
        self._open_tables = open_tables
        self._leave = leave
        self.findings = WatchFindings(scene, "findings")
        self._contents = ContentPanel(scene, "prefix")
        self.panels = Places(
            arrange_server(scene.tab),
            ServerHeadline(scene, "headline"),
            ServerTabs(scene, "tabs"),
            LatencyPanel(scene, "latency"),
            ShapePanel(scene, "shapes"),
            CapacityPanel(scene, "capacity"),
            ChartPanel(scene, "usage", "pool held", lambda point: point.usage, lambda value: f"{value:.0%}", top=1.0),
            ChartPanel(
                scene, "flow", "tokens/s out", lambda point: point.generated_tokens_per_s, lambda v: f"{v:,.0f}"
            ),
            self._contents,
            TierPanel(scene, "tiers"),
            self.findings,
            ServerKeys(scene, "footer", self.actions),
        )

    def redraw(self) -> None:
        self.panels.use(arrange_server(self.scene.tab))
        super().redraw()

    def show_tab(self, tab: WatchTab) -> None:
        """Open a tab and give the keys to what it is about."""
        self.scene.tab = tab
        self.redraw()
        self.set_focus(self.panels.get_child_by_id(self.main_panel if tab == "metrics" else tab))

    def scroll_contents(self, rows: int) -> None:
        self._contents.scroll_rows(rows)

    def open_tables(self) -> None:
        self._open_tables()

    def back_out(self) -> None:
        if self.scene.tab != "metrics":
            self.show_tab("metrics")
        else:
            self._leave()

    @on(TabStrip.Opened)
    def _tab_opened(self, event: TabStrip.Opened) -> None:
        if event.tab == "tables":
            self._open_tables()
        else:
            self.show_tab(cast(WatchTab, event.tab))
