"""What every command with a screen tells the app from the settings: colours, keys, folders, what was wrong there."""

from __future__ import annotations

from typing import Any

import platformdirs

from kvtop.app.app import AppSettings
from kvtop.app.key_map import key_map
from kvtop.app.shell import ShellSettings
from kvtop.settings import Settings


def app_settings(settings: Settings, **more: Any) -> AppSettings:
    """``more``: what only this command knows, by the names of AppSettings."""
    return AppSettings(**_shared(settings), **more)


def shell_settings(settings: Settings) -> ShellSettings:
    """The same for an app that is not about an engine."""
    return ShellSettings(**_shared(settings))


def _shared(settings: Settings) -> dict[str, Any]:
    keys, wrong_keys = key_map(settings.keys, str(settings.config_path))
    return {
        "theme": settings["theme"],
        "theme_place": settings.place_of("theme"),
        "themes_folder": settings.config_path.parent / "themes",
        "pictures_folder": platformdirs.user_pictures_path() / "kvtop",
        "keys": keys,
        "warnings": (*settings.warnings, *wrong_keys),
    }
