"""What every app of ours shares, whatever it shows: themes, the terminal, keys in order, a measured link, a tick.

An app subclasses ``Shell``, says what is to happen at a tick, and draws when ``due`` says so. Screens, sources and
figures are the app's own.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from textual import events
from textual.app import App
from textual.driver import Driver
from textual.theme import Theme as TextualTheme

from kvtop.app.key_order import KeyOrder
from kvtop.app.link import MeasuredDriver
from kvtop.app.pace import Pace
from kvtop.app.palette import Palette
from kvtop.app.terminal import detect
from kvtop.app.theme_files import Theme, load_themes, no_such_theme
from kvtop.view.colours import to_hex


@dataclass(frozen=True, slots=True)
class ShellSettings:
    theme: str = "dark"
    theme_place: str = "--theme"
    """Where it was asked for, should there be no such theme."""
    frames_per_second: float = 10
    themes_folder: Path | None = None
    """Where the user's own themes are."""
    pictures_folder: Path = Path()
    """Where screenshots go."""
    keys: dict[str, str] = field(default_factory=dict)
    """Action name → keys as bindings have them, in place of its own (see key_map)."""
    warnings: tuple[str, ...] = ()
    """To be shown once the screen is up."""


class Shell(App[None]):
    """``themes`` by name; ``palette`` is the one to start with; ``warnings`` are to be shown once the screen is up."""

    TITLE = "kvtop"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"

    def __init__(self, settings: ShellSettings) -> None:
        self.themes, theme_warnings = load_themes(settings.themes_folder)
        super().__init__(ansi_color=True if os.environ.get("NO_COLOR") is not None else None)
        self.warnings = [*settings.warnings, *theme_warnings]
        if wrong := no_such_theme(settings.theme, self.themes, settings.theme_place):
            self.warnings.append(wrong)
        theme = self.themes.get(settings.theme, self.themes["dark"])
        self.terminal = detect(os.environ, self.console.color_system)
        self.palette = Palette(theme, self.terminal.depth)
        self.pictures_folder = settings.pictures_folder
        self.keys = settings.keys
        self._pace = Pace(settings.frames_per_second)
        self._key_order = KeyOrder(self, super().on_event)
        self._tick_s = 1 / settings.frames_per_second
        for found in self.themes.values():
            self.register_theme(_textual_theme(found))
        self.theme = f"kvtop-{theme.name}"
        self.set_keymap(settings.keys)

    def on_mount(self) -> None:
        self.set_interval(self._tick_s, self.tick)

    def tick(self) -> None:
        """Take over the news, and draw when ``due``."""

    def due(self) -> bool:
        """Whether it is time for a frame, as far as the link to the terminal is concerned."""
        waiting = self._driver.link.waiting if isinstance(self._driver, MeasuredDriver) else 0
        return self._pace.due(time.monotonic(), waiting)

    @property
    def frame_bytes(self) -> int | None:
        """How much one frame may write; None: no limit."""
        return self._driver.link.frame_bytes if isinstance(self._driver, MeasuredDriver) else None

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            await self._key_order.take(event)
        else:
            await super().on_event(event)

    def get_driver_class(self) -> type[Driver]:
        """Textual's choice, with the link measured where that is the terminal of this process."""
        chosen = super().get_driver_class()
        return MeasuredDriver if chosen.__name__ == "LinuxDriver" else chosen

    def look_for(self, name: str) -> Palette:
        """Make a theme that of the app; the palette to draw with from here on."""
        self.theme = f"kvtop-{name}"
        self.palette = Palette(self.themes[name], self.terminal.depth)
        return self.palette


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
