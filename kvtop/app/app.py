"""The Textual app: one timer, one scene, one live screen. Keys, panels and dialogs live elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from textual import events
from textual.app import App, SystemCommand
from textual.driver import Driver
from textual.screen import Screen
from textual.theme import Theme as TextualTheme

from kvtop.app.actions.action import key_words
from kvtop.app.feed import Feed
from kvtop.app.key_order import KeyOrder
from kvtop.app.link import MeasuredDriver
from kvtop.app.pace import Pace
from kvtop.app.palette import Palette
from kvtop.app.recording import RecordingSwitch
from kvtop.app.scene import Scene
from kvtop.app.screens.live import LiveScreen
from kvtop.app.terminal import detect
from kvtop.app.theme_files import Theme, load_themes
from kvtop.engine.control import AnyCommand
from kvtop.sources.history import History
from kvtop.sources.source import Source
from kvtop.view.colours import to_hex


@dataclass(frozen=True, slots=True)
class AppSettings:
    theme: str = "dark"
    frames_per_second: float = 10
    themes_folder: Path | None = None
    """Where the user's own themes are."""
    pictures_folder: Path = Path()
    """Where screenshots go."""
    first_commands: tuple[AnyCommand, ...] = ()
    """Sent at the start; the engine carries them out before its first step."""
    keys: dict[str, str] = field(default_factory=dict)
    """Action name → keys as bindings have them, in place of its own (see key_map)."""
    history: History | None = None
    """What is recorded while the engine runs, to step back into."""
    recording: RecordingSwitch | None = None
    """Begins and ends files; None: there is nothing to record."""
    warnings: tuple[str, ...] = ()
    """To be shown once the screen is up."""


class KvtopApp(App[None]):
    TITLE = "kvtop"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"

    def __init__(self, source: Source, settings: AppSettings) -> None:
        self._themes, theme_warnings = load_themes(settings.themes_folder)
        super().__init__(ansi_color=True if os.environ.get("NO_COLOR") is not None else None)
        warnings = [*settings.warnings, *theme_warnings]
        if settings.theme not in self._themes:
            warnings.append(f"there is no theme {settings.theme!r}, expected one of {', '.join(self._themes)}")
        self._warnings = warnings
        theme = self._themes.get(settings.theme, self._themes["dark"])
        terminal = detect(os.environ, self.console.color_system)
        self.feed = Feed(source, settings.history)
        self.scene = Scene(self.feed, Palette(theme, terminal.depth), terminal)
        self.scene.recording = settings.recording
        self._pace = Pace(settings.frames_per_second)
        self._key_order = KeyOrder(self, super().on_event)
        self._tick_s = 1 / settings.frames_per_second
        self._settings = settings
        self._news = True
        """Something arrived since the last frame."""
        for found in self._themes.values():
            self.register_theme(_textual_theme(found))
        self.theme = f"kvtop-{theme.name}"
        self.set_keymap(settings.keys)

    def get_default_screen(self) -> Screen[None]:
        settings = self._settings
        self.live = LiveScreen(
            self.scene, self._themes, self.use_theme, self.restart_engine, settings.pictures_folder, settings.keys
        )
        return self.live

    def on_mount(self) -> None:
        for warning in self._warnings:
            self.live.say(warning, "warning")
        for command in self._settings.first_commands:
            self.live.send(command)
        self.set_interval(self._tick_s, self.tick)

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            await self._key_order.take(event)
        else:
            await super().on_event(event)

    def tick(self) -> None:
        """Take over the news, and draw when it is time to."""
        self._news = self.feed.poll() or self._news
        if self.scene.recording is not None and (why := self.scene.recording.take_end()):
            self.live.say(why, "warning")
        waiting = 0
        if isinstance(self._driver, MeasuredDriver):
            waiting, self.scene.frame_bytes = self._driver.link.waiting, self._driver.link.frame_bytes
        if self._pace.due(time.monotonic(), waiting):
            self.live.tick(self._news)
            self._news = False

    def get_driver_class(self) -> type[Driver]:
        """Textual's choice, with the link measured where that is the terminal of this process."""
        chosen = super().get_driver_class()
        return MeasuredDriver if chosen.__name__ == "LinuxDriver" else chosen

    def action_save_picture(self) -> None:
        self.live.save_picture()

    def use_theme(self, name: str) -> None:
        self.theme = f"kvtop-{name}"
        self.live.look_again(Palette(self._themes[name], self.scene.terminal.depth))

    def restart_engine(self) -> None:
        self.feed.source.restart()
        self.feed.begin_again()
        self.live.redraw()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every action, for the palette."""
        for action in self.live.actions:
            words = f"{action.help}  {key_words(action.keys)}"
            yield SystemCommand(action.title, words, lambda name=action.name: self.live.action_do(name))


def _textual_theme(theme: Theme) -> TextualTheme:
    """Our colours under the names that Textual's own widgets (fields, lists, the palette) know."""
    colours = theme.colors
    return TextualTheme(
        name=f"kvtop-{theme.name}",
        dark=theme.dark,
        primary=to_hex(colours.accent),
        secondary=to_hex(colours.focus),
        accent=to_hex(colours.accent),
        warning=to_hex(colours.warning),
        error=to_hex(colours.bad),
        success=to_hex(colours.good),
        foreground=to_hex(colours.text),
        background=to_hex(colours.background),
        surface=to_hex(colours.raised),
        panel=to_hex(colours.raised),
        variables={
            "raised": to_hex(colours.raised),
            "border-focus": to_hex(colours.focus),
            "text-muted": to_hex(colours.muted),
            "block-cursor-background": to_hex(colours.raised),
            "block-cursor-foreground": to_hex(colours.text),
            "scrollbar": to_hex(colours.border),
            "scrollbar-background": to_hex(colours.background),
        },
    )
