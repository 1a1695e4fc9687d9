"""What the screens over watched servers have in common: panels that are drawn together, keys, words, pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from textual import on
from textual.app import ComposeResult

from kvtop.app.actions.action import Action
from kvtop.app.palette import Palette
from kvtop.app.screens.speaking import SpeakingScreen
from kvtop.app.theme_files import Theme
from kvtop.app.watch.findings_panel import WatchFindings
from kvtop.app.watch.places import Places
from kvtop.app.watch.scene import WatchScene
from kvtop.app.widgets.drawing import Drawing
from kvtop.app.widgets.key_line import KeyLine


@dataclass(frozen=True, slots=True)
class Setting:
    """What every screen is given of the app it is in."""

    themes: Mapping[str, Theme]
    use_theme: Callable[[str], None]
    pictures: Path
    keys: Mapping[str, str]
    """Action name → keys in place of its own."""


class WatchKeys(KeyLine):
    """Offers to wind where there is something to be wound."""

    scene: WatchScene

    def label(self, action: Action[Any]) -> str:
        if action.name in ("pause", "step", "step_back"):
            words = {"pause": "pause", "step": "1 s on", "step_back": "10 s back"}
            return words[action.name] if self.scene.recording is not None else ""
        return super().label(action)


class WatchScreen(SpeakingScreen):
    """Subclasses make ``panels`` and say how they are placed; ``redraw`` draws what is in sight."""

    DEFAULT_CSS = "WatchScreen { layout: vertical; background: $background; }"

    panels: Places
    findings: WatchFindings
    main_panel = ""
    """Which panel has the keys at first."""

    def __init__(self, scene: WatchScene, setting: Setting, actions: Sequence[Action[Any]]) -> None:
        super().__init__(setting.pictures, lambda: scene.clock())
        self.scene = scene
        self.themes = setting.themes
        self.use_theme = setting.use_theme
        self.actions = [replace(action, keys=setting.keys.get(action.name, action.keys)) for action in actions]
        """Those that work here, with the keys they listen to."""

    def compose(self) -> ComposeResult:
        yield self.panels

    def on_mount(self) -> None:
        self.set_focus(self.panels.get_child_by_id(self.main_panel))

    def on_screen_resume(self) -> None:
        self.redraw()

    def redraw(self) -> None:
        """Bring every panel in sight up to date."""
        in_sight = self.panels.in_sight()
        for panel in self.panels.query_children(Drawing):
            if panel.id in in_sight:
                panel.redraw()

    def look_again(self, palette: Palette) -> None:
        """Everything looks different now."""
        self.scene.palette = palette
        for panel in self.panels.query_children(Drawing):
            panel.forget()

    def back_out(self) -> None:
        """To where one came from."""

    def action_do(self, name: str) -> None:
        next(action for action in self.actions if action.name == name).run(self)

    @on(KeyLine.Pressed)
    def _key_pressed(self, event: KeyLine.Pressed) -> None:
        self.action_do(event.name)

    @property
    def focused_panel(self) -> str:
        """The id of the panel that has the keys."""
        return self.focused.id or "" if self.focused is not None else ""

    def focus_panel(self, direction: int) -> None:
        """Give the keys to the next panel in sight that takes them."""
        ids = [name for name in self.panels.in_sight() if self.panels.get_child_by_id(name).can_focus]
        if ids:
            at = ids.index(self.focused_panel) if self.focused_panel in ids else -direction
            self.set_focus(self.panels.get_child_by_id(ids[(at + direction) % len(ids)]))
