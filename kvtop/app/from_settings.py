"""What every command with a screen tells the app from the settings: colours, keys, folders, what was wrong there."""

from __future__ import annotations

from typing import Any

import platformdirs

from kvtop.app.app import AppSettings
from kvtop.app.key_map import key_map
from kvtop.settings import Settings


def app_settings(settings: Settings, **more: Any) -> AppSettings:
    """``more``: what only this command knows, by the names of AppSettings."""
    keys, wrong_keys = key_map(settings.keys, str(settings.config_path))
    return AppSettings(
        theme=settings["theme"],
        themes_folder=settings.config_path.parent / "themes",
        pictures_folder=platformdirs.user_pictures_path() / "kvtop",
        keys=keys,
        warnings=(*settings.warnings, *wrong_keys),
        **more,
    )
