"""What the panels over watched servers draw from: the fleet, its rows of this moment, and what a person pointed at.

One object is handed to every panel. Rows, sums and findings are worked out once a frame, by ``look``; panels only draw.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kvtop.app.palette import Palette
from kvtop.app.terminal import Terminal
from kvtop.attach.fleet import Depth, Fleet, Place, WatchedServer
from kvtop.attach.gpus import Gpu, GpuWatch, is_here
from kvtop.attach.history import RankHistory
from kvtop.attach.replayed_fleet import ReplayedFleet
from kvtop.attach.traffic import ServerTraffic
from kvtop.view.fleet import FleetRow, FleetTotal, fleet_rows, fleet_total
from kvtop.view.fleet_findings import fleet_findings
from kvtop.view.fleet_log import FleetLog
from kvtop.view.server_advice import server_cases
from kvtop.view.slo import Slo

WatchTab = Literal["metrics", "sent", "prefix", "findings"]

FIRST = Place(0, "")


@dataclass(slots=True)
class WatchScene:
    fleet: Fleet | ReplayedFleet
    palette: Palette
    terminal: Terminal
    slo: Slo
    gpu_watch: GpuWatch | None = None
    traffics: dict[int, ServerTraffic] = field(default_factory=dict)
    """Server → what was sent to it from here."""
    true_preemptions: int | None = None
    """Those that the shown rank's true tables told of; None: they are not open."""
    clock: Callable[[], float] = time.time
    """Wall time in seconds, for the clock in the corner."""
    place: Place = FIRST
    """The rank that is chosen, or shown by itself."""
    tab: WatchTab = "metrics"
    rows: list[FleetRow] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    """Whose rows they are, in the same order."""
    total: FleetTotal = field(default_factory=lambda: fleet_total([]))
    log: FleetLog = field(default_factory=FleetLog)

    @property
    def recording(self) -> ReplayedFleet | None:
        """The recording that is played; None: the servers are there."""
        return self.fleet if isinstance(self.fleet, ReplayedFleet) else None

    def look(self) -> None:
        """Work out what is so now."""
        now_s = self.fleet.now_s()
        self.rows, self.places = fleet_rows(self.fleet.watches, now_s), self.fleet.places()
        self.total = fleet_total(self.rows)
        cases = fleet_findings(self.rows)
        for row, place in zip(self.rows, self.places, strict=True):
            history = self.history(place)
            if history is not None and history.last is not None:
                cases |= server_cases(row, history.last, self.slo)
        self.log.observe(cases, now_s)
        if self.place not in self.places:
            self.place = self._nearest()

    def _nearest(self) -> Place:
        """The first rank of the chosen server, once it has told of any."""
        return next(place for place in self.places if place.server == self.place.server)

    @property
    def at(self) -> int:
        """Which row the chosen place is."""
        return self.places.index(self.place)

    @property
    def row(self) -> FleetRow:
        """Of the chosen place."""
        return self.rows[self.at]

    @property
    def server(self) -> WatchedServer:
        return self.fleet.servers[self.place.server]

    def history(self, place: Place) -> RankHistory | None:
        """The readings of a rank; None while there are none."""
        return self.fleet.servers[place.server].metrics.ranks.get(place.rank)

    def depth(self, place: Place) -> Depth:
        return self.fleet.servers[place.server].depth(place.rank)

    @property
    def traffic(self) -> ServerTraffic | None:
        """What was sent to the chosen server; None in a recording."""
        return self.traffics.get(self.place.server)

    def gpus(self, server: WatchedServer) -> Sequence[Gpu]:
        """Those of this machine, where the server runs on it and they can be read."""
        return self.gpu_watch.gpus if self.gpu_watch is not None and is_here(server.target) else ()

    @property
    def shown_depth(self) -> Depth:
        """What the open tab shows: the tree is made of events, all else of metrics."""
        return "logical residency" if self.tab == "prefix" else "metrics only"

    def move(self, step: int) -> None:
        """Choose the rank ``step`` rows below."""
        self.place = self.places[max(0, min(len(self.places) - 1, self.at + step))]
