"""The policy lab by itself, without an engine: ``kvtop sim --live``.

The same panel and keys as the lab's tab on the live screen; whatever speaks of an engine is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from textual import on
from textual.app import ComposeResult, SystemCommand
from textual.screen import Screen

from kvtop.app.actions import ACTIONS
from kvtop.app.actions.action import Action, key_words
from kvtop.app.actions.lab import LAB
from kvtop.app.lab.desk import LabDesk
from kvtop.app.lab.panel import LabPanel
from kvtop.app.palette import Palette
from kvtop.app.screens.speaking import SpeakingScreen
from kvtop.app.shell import Shell, ShellSettings
from kvtop.app.terminal import Terminal
from kvtop.app.theme_files import Theme
from kvtop.app.widgets.key_line import KeyLine


def _on_desk(change: Callable[[LabDesk], None]) -> Callable[[LabScreen], None]:
    def run(screen: LabScreen) -> None:
        change(screen.scene.lab)
        screen.redraw()

    return run


STEPPING: tuple[Action[LabScreen], ...] = (
    Action("pause", "space", "Run, or stand; at the end: again from the start.", "stepping", _on_desk(LabDesk.toggle),
           label="run", footer=1),
    Action("step", "full_stop", "One step of every lane.", "stepping", _on_desk(LabDesk.step), footer=2),
    Action("step_until", "greater_than_sign", "To the next step in which somebody is preempted.", "stepping",
           _on_desk(LabDesk.run_to_preemption), label="to preemption", footer=3),
    Action("step_back", "comma", "One step back.", "stepping", _on_desk(LabDesk.step_back)),
    Action("event_back", "less_than_sign", "Back to the preemption before.", "stepping",
           _on_desk(LabDesk.back_to_preemption)),
)  # fmt: skip
"""Under the names of the live screen's, so that keys of one's own count here too."""
_OF_THE_LIVE_SCREEN = ("theme", "screenshot", "help", "palette", "suspend", "quit")
LAB_ACTIONS: tuple[Action[Any], ...] = (*STEPPING, *LAB, *(ACTIONS[name] for name in _OF_THE_LIVE_SCREEN))


@dataclass(slots=True)
class LabScene:
    palette: Palette
    terminal: Terminal
    lab: LabDesk


class LabKeys(KeyLine):
    scene: LabScene

    def label(self, action: Action[Any]) -> str:
        return "pause" if action.name == "pause" and self.scene.lab.moves else super().label(action)


class LabScreen(SpeakingScreen):
    DEFAULT_CSS = """
    LabScreen { layout: vertical; background: $background; }
    LabScreen LabPanel { height: 1fr; }
    LabScreen LabKeys { height: 1; }
    """
    BINDINGS = [action.binding() for action in LAB_ACTIONS if not action.panel]

    def __init__(
        self,
        scene: LabScene,
        themes: Mapping[str, Theme],
        use_theme: Callable[[str], None],
        pictures: Path,
        keys: Mapping[str, str],
    ) -> None:
        super().__init__(pictures)
        self.scene = scene
        self.themes = themes
        self.use_theme = use_theme
        self.actions = [replace(action, keys=keys.get(action.name, action.keys)) for action in LAB_ACTIONS]
        self.panel = LabPanel(scene, "lab")
        self._keys = LabKeys(scene, "footer", self.actions)
        self._moved = True

    def compose(self) -> ComposeResult:
        yield self.panel
        yield self._keys

    def on_mount(self) -> None:
        self.set_focus(self.panel)

    def on_screen_resume(self) -> None:
        self.redraw()

    def tick(self) -> None:
        """A frame is due; nothing is drawn while the lab stands."""
        self.panel.tick()
        if self._moved or self.scene.lab.moves:
            self.redraw()
        self._moved = self.scene.lab.moves

    def redraw(self) -> None:
        self.panel.redraw()
        self._keys.redraw()

    def look_again(self, palette: Palette) -> None:
        self.scene.palette = palette
        self.panel.forget()
        self._keys.forget()

    def action_do(self, name: str) -> None:
        next(action for action in self.actions if action.name == name).run(self)

    @on(KeyLine.Pressed)
    def _key_pressed(self, event: KeyLine.Pressed) -> None:
        self.action_do(event.name)

    @property
    def focused_panel(self) -> str:
        return "lab"


class LabApp(Shell):
    def __init__(self, desk: LabDesk, settings: ShellSettings) -> None:
        super().__init__(settings)
        self.scene = LabScene(self.palette, self.terminal, desk)

    def get_default_screen(self) -> Screen[None]:
        self.lab_screen = LabScreen(self.scene, self.themes, self.use_theme, self.pictures_folder, self.keys)
        return self.lab_screen

    def on_mount(self) -> None:
        for warning in self.warnings:
            self.lab_screen.say(warning, "warning")

    def tick(self) -> None:
        if self.due():
            self.lab_screen.tick()

    def action_save_picture(self) -> None:
        self.lab_screen.save_picture()

    def use_theme(self, name: str) -> None:
        self.lab_screen.look_again(self.look_for(name))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every action, for the palette."""
        for action in self.lab_screen.actions:
            words = f"{action.help}  {key_words(action.keys)}"
            yield SystemCommand(action.title, words, lambda name=action.name: self.lab_screen.action_do(name))
