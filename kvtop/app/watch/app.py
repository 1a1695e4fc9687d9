"""The app over watched servers: polls the fleet, keeps the figures of the moment, shows the fleet or one of its ranks.

One server with one rank is opened directly; several are a fleet first. Nothing here waits for a server.
"""

from __future__ import annotations

from collections.abc import Iterable

from textual.app import SystemCommand
from textual.screen import Screen

from kvtop.app.actions.action import key_words
from kvtop.app.shell import Shell, ShellSettings
from kvtop.app.watch.fleet_screen import FleetScreen
from kvtop.app.watch.scene import WatchScene
from kvtop.app.watch.screen import Setting, WatchScreen
from kvtop.app.watch.server_screen import ServerScreen
from kvtop.attach.fleet import Fleet
from kvtop.attach.gpus import GpuWatch
from kvtop.view.slo import Slo


class WatchApp(Shell):
    def __init__(self, fleet: Fleet, slo: Slo, settings: ShellSettings) -> None:
        super().__init__(settings)
        self.fleet = fleet
        self.scene = WatchScene(fleet, self.palette, self.terminal, slo, GpuWatch())
        self.scene.look()
        self._setting = Setting(self.themes, self.use_theme, self.pictures_folder, self.keys)
        self._opened_itself = False
        """A lone server was shown by itself without being asked for."""

    def get_default_screen(self) -> Screen[None]:
        self.fleet_screen = FleetScreen(self.scene, self._setting, self.open_server)
        return self.fleet_screen

    def on_mount(self) -> None:
        for warning in self.warnings:
            self.fleet_screen.say(warning, "warning")
        if self.scene.gpu_watch is not None:
            self.scene.gpu_watch.start()
        if len(self.fleet.servers) == 1:
            self._opened_itself = True
            self.open_server()

    def on_unmount(self) -> None:
        if self.scene.gpu_watch is not None:
            self.scene.gpu_watch.close()

    def tick(self) -> None:
        self.fleet.poll()
        if self.due():
            self.scene.look()
            self._show_ranks_of_a_lone_server()
            if isinstance(self.screen, WatchScreen):
                self.screen.redraw()

    def _show_ranks_of_a_lone_server(self) -> None:
        """A server that was opened before it said how many ranks it has, and has several, is a fleet after all."""
        if self._opened_itself and len(self.scene.rows) > 1 and isinstance(self.screen, ServerScreen):
            self._opened_itself = False
            self.leave_server()

    def open_server(self) -> None:
        self.fleet.listen(self.scene.server)
        self.scene.tab = "metrics"
        self.push_screen(ServerScreen(self.scene, self._setting, self.open_tables, self.leave_server))

    def leave_server(self) -> None:
        if len(self.scene.rows) > 1 and isinstance(self.screen, ServerScreen):
            self.pop_screen()

    def open_tables(self) -> None:
        """Show the true tables of the chosen rank."""

    def action_save_picture(self) -> None:
        self.fleet_screen.save_picture()

    def use_theme(self, name: str) -> None:
        palette = self.look_for(name)
        for screen in self.screen_stack:
            if isinstance(screen, WatchScreen):
                screen.look_again(palette)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every action of the screen in front, for the palette."""
        if isinstance(screen, WatchScreen):
            for action in screen.actions:
                words = f"{action.help}  {key_words(action.keys)}"
                yield SystemCommand(action.title, words, lambda name=action.name: screen.action_do(name))
