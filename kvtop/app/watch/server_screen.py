"""One rank of one server: what its metrics tell, what its KV events tell, what is worth a word.

Its true tables are a screen of their own, the live one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from textual import on

from kvtop.app.actions.action import Action
from kvtop.app.destination import Destination
from kvtop.app.screens.inject import InjectForm
from kvtop.app.watch.actions import ANYWHERE, READING, SERVER, bindings_of
from kvtop.app.watch.capacity_panel import CapacityPanel
from kvtop.app.watch.chart_panel import ChartPanel
from kvtop.app.watch.findings_panel import WatchFindings
from kvtop.app.watch.headline import ServerHeadline
from kvtop.app.watch.latency_panel import LatencyPanel
from kvtop.app.watch.places import Places, arrange_server
from kvtop.app.watch.residency_panels import ContentPanel, TierPanel
from kvtop.app.watch.scene import WatchScene, WatchTab
from kvtop.app.watch.screen import Setting, WatchKeys, WatchScreen
from kvtop.app.watch.sent_panel import SentPanel
from kvtop.app.watch.shape_panel import ShapePanel
from kvtop.app.widgets.tab_strip import TabStrip
from kvtop.engine.control import Abort
from kvtop.engine.requests import Request
from kvtop.view.words import count

TABS: tuple[tuple[str, WatchTab, str], ...] = (
    ("1", "metrics", "metrics"),
    ("2", "sent", "sent"),
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
        if tab == "sent" and self.scene.traffic is not None and self.scene.traffic.under_way:
            return str(self.scene.traffic.under_way)
        standing = self.scene.log.standing
        return str(len(standing)) if tab == "findings" and standing else ""


class ServerKeys(WatchKeys):
    """Offers what this server allows."""

    def label(self, action: Action[Any]) -> str:
        if action.name == "inject" and self.scene.recording is not None:
            return ""
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
        self,
        scene: WatchScene,
        setting: Setting,
        destination: Callable[[], Destination | None],
        open_tables: Callable[[], None],
        leave: Callable[[], None],
    ) -> None:
        super().__init__(scene, setting, (*SERVER, *READING, *ANYWHERE))
        self._destination = destination
        self._open_tables = open_tables
        self._leave = leave
        self.findings = WatchFindings(scene, "findings")
        self.sent: SentPanel = SentPanel(scene, "sent")
        self.form_values: dict[str, str] = {}
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
            self.sent,
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

    def inject(self) -> None:
        destination = self._destination()
        if destination is None:
            self.say("there is no server here to send requests to", "warning")
        else:
            self.app.push_screen(InjectForm(destination, self.form_values), self._injected)

    def _injected(self, requests: list[Request] | None) -> None:
        if requests:
            self.show_tab("sent")

    def abort(self, everything: bool) -> None:
        traffic, chosen = self.scene.traffic, self.sent.chosen
        if traffic is None:
            return
        if everything:
            self.say(f"aborted {count(traffic.abort_all(), 'request')}")
        elif chosen in traffic.sent:
            traffic.send(Abort(request_id=chosen))
        else:
            self.say("choose a request first: ↑ ↓", "warning")

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
