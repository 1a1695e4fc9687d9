"""What is wrong in the config file, the environment and the user's themes: the warnings a start would show."""

from __future__ import annotations

from kvtop.app.theme_files import theme_faults
from kvtop.doctor.finding import Finding
from kvtop.settings import Settings


def settings_findings(settings: Settings) -> list[Finding]:
    """One finding for the file, and one for each warning."""
    there = settings.config_path.is_file()
    file = Finding("config file", "ok", f"{settings.config_path}{'' if there else ' (not there: defaults count)'}")
    warned = [
        *((warning, "correct or remove it; kvtop config shows what counts") for warning in settings.warnings),
        *((warning, "correct the theme file or its name, or remove it") for warning in _theme_warnings(settings)),
        *((warning, "kvtop config --keys lists actions and keys") for warning in _key_warnings(settings)),
    ]
    return [file, *(Finding("settings", "warn", warning, advice) for warning, advice in warned)]


def _theme_warnings(settings: Settings) -> list[str]:
    return theme_faults(settings["theme"], settings.place_of("theme"), settings.config_path.parent / "themes")


def _key_warnings(settings: Settings) -> list[str]:
    if not settings.keys:
        return []
    from kvtop.app.key_map import key_map  # Textual, which knows the names of keys

    return key_map(settings.keys, str(settings.config_path))[1]
