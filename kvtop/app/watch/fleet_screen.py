"""The fleet: every rank of every server in a row, their sum, and what is worth a word about them."""

from __future__ import annotations

from collections.abc import Callable

from textual import on

from kvtop.app.watch.actions import ANYWHERE, FLEET, READING, bindings_of
from kvtop.app.watch.findings_panel import WatchFindings
from kvtop.app.watch.fleet_table import FleetTable
from kvtop.app.watch.headline import FleetHeadline
from kvtop.app.watch.places import Places, arrange_fleet
from kvtop.app.watch.scene import WatchScene
from kvtop.app.watch.screen import Setting, WatchKeys, WatchScreen


class FleetScreen(WatchScreen):
    """``open_chosen`` shows the chosen rank by itself."""

    BINDINGS = bindings_of(FLEET)
    main_panel = "fleet"

    def __init__(self, scene: WatchScene, setting: Setting, open_chosen: Callable[[], None]) -> None:
        super().__init__(scene, setting, (*FLEET, *READING, *ANYWHERE))
        self._open_chosen = open_chosen
        self.findings = WatchFindings(scene, "findings")
        self.panels = Places(
            arrange_fleet(len(scene.rows)),
            FleetHeadline(scene, "headline"),
            FleetTable(scene, "fleet"),
            self.findings,
            WatchKeys(scene, "footer", [action for action in self.actions if action.name != "back"]),
        )

    def redraw(self) -> None:
        self.panels.use(arrange_fleet(len(self.scene.rows)))
        super().redraw()

    def open_server(self) -> None:
        self._open_chosen()

    @on(FleetTable.Opened)
    def _opened(self) -> None:
        self._open_chosen()
