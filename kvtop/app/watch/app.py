"""The app over watched servers: polls the fleet, keeps the figures of the moment, shows the fleet or one of its ranks.

One server with one rank is opened directly; several are a fleet first. Nothing here waits for a server.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from textual.app import SystemCommand
from textual.screen import Screen

from kvtop.app.actions.action import key_words
from kvtop.app.destination import Destination
from kvtop.app.screens.live import LiveScreen
from kvtop.app.shell import Shell, ShellSettings
from kvtop.app.watch.fleet_screen import FleetScreen
from kvtop.app.watch.scene import WatchScene
from kvtop.app.watch.screen import Setting, WatchScreen
from kvtop.app.watch.server_destination import ServerDestination
from kvtop.app.watch.server_screen import ServerScreen
from kvtop.app.watch.tables_screen import Tables, TablesScreen
from kvtop.attach.fleet import Fleet, foreign
from kvtop.attach.gpus import GpuWatch
from kvtop.attach.replayed_fleet import ReplayedFleet
from kvtop.attach.traffic import ServerTraffic
from kvtop.view.clean import clean_line
from kvtop.view.server_facts import max_model_len
from kvtop.view.slo import Slo

LOOK_SECONDS = 0.25
WORDLESS_SECONDS = 3.0
"""An exporter speaks once a second: after so long without a word the metrics are shown instead."""


class WatchApp(Shell):
    def __init__(self, fleet: Fleet | ReplayedFleet, slo: Slo, settings: ShellSettings) -> None:
        super().__init__(settings)
        self.fleet = fleet
        live = not isinstance(fleet, ReplayedFleet)
        self.scene = WatchScene(fleet, self.palette, self.terminal, slo, GpuWatch() if live else None)
        self.scene.look()
        self._setting = Setting(self.themes, self.use_theme, self.pictures_folder, self.keys)
        self._looked_s = 0.0
        self._said = ""
        """Which end was said already."""
        self._tables: Tables | None = None
        """What is subscribed to, while it is shown."""
        self._may_move = len(fleet.servers) == 1
        """A lone server may be shown otherwise by itself."""
        self._was_touched = False
        """Somebody pressed a key: what is shown is theirs to choose."""

    def get_default_screen(self) -> Screen[None]:
        self.fleet_screen = FleetScreen(self.scene, self._setting, self.open_server)
        return self.fleet_screen

    def on_mount(self) -> None:
        for warning in self.warnings:
            self.fleet_screen.say(warning, "warning")
        if self.scene.gpu_watch is not None:
            self.scene.gpu_watch.start()
        if len(self.fleet.servers) == 1:
            self.open_server()

    def on_unmount(self) -> None:
        if self.scene.gpu_watch is not None:
            self.scene.gpu_watch.close()
        self._close_tables()
        for traffic in self.scene.traffics.values():
            traffic.close()

    def tick(self) -> None:
        self.fleet.poll()
        self._say_ends()
        for traffic in self.scene.traffics.values():
            traffic.poll()
        due = self.due()
        if due:
            self._look_if_due()
            screen = self._front()
            if isinstance(screen, WatchScreen):
                screen.redraw()
        if self._tables is not None:
            self._tables.tick(due and self._front() is self._tables.screen, self.frame_bytes)

    def _turn_away(self) -> None:
        """Leave true tables that cannot be this server's: an exporter at the usual port may be a neighbour's."""
        tables = self._tables
        if tables is None or tables.feed.live.info is None:
            return
        history = self.scene.history(tables.place)
        if history is None or history.last is None:
            return
        why = foreign(tables.feed.live.info, history.last)
        if why:
            self.leave_tables()
            self._close_tables()
            self.fleet.reject_tables(self.fleet.servers[tables.place.server])
            self._front().say(f"the exporter that was found is another server's: {why}", "warning")

    def _give_way(self) -> None:
        """Show metrics while an exporter that should be there says nothing, and its tables once it does."""
        tables = self._tables
        if tables is None:
            return
        if tables.comes_back and tables.feed.live.info is not None and isinstance(self.screen, ServerScreen):
            tables.comes_back = False
            self.open_tables()
        elif self.screen is tables.screen and tables.wordless_s > WORDLESS_SECONDS:
            tables.comes_back = not self._was_touched
            self.leave_tables()
            status = tables.feed.status
            why = status.detail if status.state == "failed" else f"no word from the exporter at {tables.endpoint}"
            self._front().say(f"{clean_line(why, 200)}; m shows its tables when it speaks", "warning")

    def _say_ends(self) -> None:
        """Say once why a recording, made or played, ended before its time."""
        made = self.fleet.recorder if isinstance(self.fleet, Fleet) else None
        why = made.failure if made is not None else self.fleet.failure if isinstance(self.fleet, ReplayedFleet) else ""
        if why and why != self._said:
            self._said = why
            self._front().say(why, "warning")

    def _true_preemptions(self) -> int | None:
        tables = self._tables
        if tables is None or tables.place != self.scene.place or tables.feed.live.info is None:
            return None
        return tables.feed.live.counters.preemptions

    def _look_if_due(self) -> None:
        """Work the figures out a few times a second: for many servers that costs more than drawing them."""
        now_s = time.monotonic()
        if now_s - self._looked_s < LOOK_SECONDS:
            return
        self._looked_s = now_s
        self.scene.true_preemptions = self._true_preemptions()
        self.scene.look()
        self._open_by_itself()
        self._turn_away()
        self._give_way()

    def _front(self) -> WatchScreen | LiveScreen:
        """The screen in front, whatever dialogs are over it; before there is one, and after, the fleet's."""
        shown = (screen for screen in reversed(self.screen_stack) if isinstance(screen, WatchScreen | LiveScreen))
        return next(shown, self.fleet_screen)

    def _open_by_itself(self) -> None:
        """A lone server is shown at its deepest depth, once that is found; one that has several ranks is a fleet after
        all. Until somebody presses a key."""
        if not self._may_move:
            return
        if len(self.scene.rows) > 1:
            self._may_move = False
            self.leave_server()
        elif self.scene.depth(self.scene.place) == "true tables" and self.scene.place.rank:
            self._may_move = False
            self.open_tables()

    def on_key(self) -> None:
        self._may_move = False
        self._was_touched = True
        if self._tables is not None:
            self._tables.comes_back = False

    # --- moving between screens ---------------------------------------------------------------------------------------

    def open_server(self) -> None:
        """Show the chosen rank, at the deepest depth it allows."""
        self.fleet.listen(self.scene.server)
        self.scene.tab = "metrics"
        self.push_screen(
            ServerScreen(self.scene, self._setting, self._destination, self.open_tables, self.leave_server)
        )
        if self.scene.depth(self.scene.place) == "true tables":
            self.open_tables()

    def leave_server(self) -> None:
        if len(self.scene.rows) > 1 and isinstance(self._front(), ServerScreen):
            self.pop_screen()
            self._close_tables()

    def open_tables(self) -> None:
        """Show the true tables of the chosen rank."""
        scene = self.scene
        if self._tables is not None and self._tables.place == scene.place:
            self._tables.screen.scene.palette = self.palette
            self.push_screen(self._tables.new_screen())
            return
        destination = self._destination()
        if scene.depth(scene.place) != "true tables" or destination is None:
            self._front().say("this server carries no exporter that could be found (see docs/attach.md)", "warning")
            return
        self._close_tables()
        self._tables = Tables(
            scene.place,
            scene.server.tables[int(scene.place.rank or 0)],
            self._traffic(),
            destination,
            self.palette,
            self.terminal,
            self._setting,
            self.leave_tables,
        )
        self._tables.start()
        self.push_screen(self._tables.screen)

    def leave_tables(self) -> None:
        """Back to metrics; the tables go on being followed, for when they are opened again."""
        if isinstance(self._front(), TablesScreen):
            self.pop_screen()

    def _close_tables(self) -> None:
        tables, self._tables = self._tables, None
        if tables is not None:
            tables.close()

    def _traffic(self) -> ServerTraffic:
        """What is sent to the chosen server."""
        scene = self.scene
        if scene.traffic is None:
            scene.traffics[scene.place.server] = ServerTraffic(scene.server.target.base)
        return scene.traffics[scene.place.server]

    def _destination(self) -> Destination | None:
        """Where the inject form sends to: the chosen server; None in a recording."""
        scene, place = self.scene, self.scene.place
        if scene.recording is not None:
            return None

        def limit() -> float | None:
            history = scene.history(place)
            return max_model_len(history.last) if history is not None and history.last is not None else None

        return ServerDestination(self._traffic(), lambda: scene.row, limit)

    # --- the app's own ------------------------------------------------------------------------------------------------

    def action_save_picture(self) -> None:
        self._front().save_picture()

    def use_theme(self, name: str) -> None:
        palette = self.look_for(name)
        for screen in self.screen_stack:
            if isinstance(screen, WatchScreen | LiveScreen):
                screen.look_again(palette)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every action of the screen in front, for the palette."""
        if isinstance(screen, WatchScreen | LiveScreen):
            for action in screen.actions:
                words = f"{action.help}  {key_words(action.keys)}"
                yield SystemCommand(action.title, words, lambda name=action.name: screen.action_do(name))
