"""Theme files: TOML → Theme, checked by name and position.

A theme says what colours things have; it never says which thing is drawn where. A file that breaks a rule becomes a
warning that names file, key and what is allowed, and the theme is left out: the program starts all the same.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any

from kvtop.view.colours import ANSI_NAMES, Rgb, parse_hex


@dataclass(frozen=True, slots=True)
class Colors:
    background: Rgb
    raised: Rgb
    border: Rgb
    focus: Rgb
    text: Rgb
    muted: Rgb
    faint: Rgb
    accent: Rgb
    good: Rgb
    warning: Rgb
    bad: Rgb
    free: Rgb
    free_mark: Rgb
    active: Rgb
    cached: Rgb
    cursor: Rgb
    changed: Rgb


@dataclass(frozen=True, slots=True)
class Shares:
    """How much of an owner's colour shows over the background, 0 to 1."""

    full: float
    partial: float
    cached: float
    dimmed: float
    changed: float


@dataclass(frozen=True, slots=True)
class Owners:
    """Colours of the owners, first slot first; more owners than colours go round again."""

    colors: tuple[Rgb, ...]
    colors_256: tuple[Rgb, ...]
    colors_16: tuple[int, ...]
    """Numbers of ANSI colours."""


@dataclass(frozen=True, slots=True)
class Theme:
    name: str
    dark: bool
    colors: Colors
    shares: Shares
    owners: Owners


class ThemeError(ValueError):
    """A theme file breaks a rule; the message names the key and what is allowed."""


def load_themes(user_folder: Path | None = None) -> tuple[dict[str, Theme], list[str]]:
    """All themes by name, the built-in ones first, and a warning for each file of ``user_folder`` that was left out.

    A user's theme takes the place of a built-in one of the same name.
    """
    themes: dict[str, Theme] = {}
    for name in ("dark", "light"):
        _add(themes, resources.files("kvtop.themes").joinpath(f"{name}.toml").read_text("utf-8"))
    for file in sorted(resources.files("kvtop.themes").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml") and file.name not in ("dark.toml", "light.toml"):
            _add(themes, file.read_text("utf-8"))

    warnings = []
    for path in _user_files(user_folder):
        try:
            _add(themes, path.read_text("utf-8"), fallback_name=path.stem)
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ThemeError) as error:
            warnings.append(f"theme {path.name} is left out: {error}")
    return themes, warnings


def no_such_theme(name: str, themes: Iterable[str], place: str) -> str:
    """What is wrong with a theme that is not among ``themes`` and was asked for at ``place``; empty when it is."""
    if name in themes:
        return ""
    return f"{place} is {name!r}, but there is no such theme, expected one of {', '.join(themes)}; dark is used"


def theme_faults(name: str, place: str, user_folder: Path) -> list[str]:
    """What a start would say of a user's themes, and of ``name``, which was asked for at ``place``."""
    themes, warnings = load_themes(user_folder)
    missing = no_such_theme(name, themes, place)
    return [*warnings, missing] if missing else warnings


def _user_files(folder: Path | None) -> Iterable[Path]:
    return sorted(folder.glob("*.toml")) if folder is not None and folder.is_dir() else ()


def _add(themes: dict[str, Theme], text: str, fallback_name: str = "") -> None:
    theme = parse_theme(text, themes, fallback_name)
    themes[theme.name] = theme


def parse_theme(text: str, known: dict[str, Theme], fallback_name: str = "") -> Theme:
    """A theme from the text of its file. What it leaves out comes from ``known["dark"]`` or ``known["light"]``.

    Raises ThemeError, or tomllib.TOMLDecodeError for what is not TOML at all.
    """
    data = tomllib.loads(text)
    _refuse_unknown(data, ("name", "dark", "colors", "variables", "owners"), "")
    name, dark = data.get("name", fallback_name), data.get("dark", True)
    if not isinstance(name, str) or not name:
        raise ThemeError(f"name: is {name!r}, expected a word")
    if not isinstance(dark, bool):
        raise ThemeError(f"dark: is {dark!r}, expected true or false")
    base = known.get("dark" if dark else "light")
    return Theme(
        name=name,
        dark=dark,
        colors=Colors(**_section(data, "colors", Colors, base and base.colors, _color)),
        shares=Shares(**_section(data, "variables", Shares, base and base.shares, _share)),
        owners=Owners(**_section(data, "owners", Owners, base and base.owners, _color_list)),
    )


def _section(data: dict[str, Any], section: str, kind: type, base: Any, convert: Any) -> dict[str, Any]:
    """The fields of ``kind`` from one table of the file, each checked by ``convert(where, value)``."""
    table = data.get(section, {})
    if not isinstance(table, dict):
        raise ThemeError(f"{section}: is {table!r}, expected a table, [{section}]")
    names = [field.name for field in fields(kind)]
    _refuse_unknown(table, names, f"{section}.")
    values = {}
    for name in names:
        if name in table:
            values[name] = convert(f"{section}.{name}", table[name])
        elif base is not None:
            values[name] = getattr(base, name)
        else:
            raise ThemeError(f"{section}.{name}: is missing")
    return values


def _refuse_unknown(table: dict[str, Any], allowed: Iterable[str], where: str) -> None:
    for key in table:
        if key not in allowed:
            raise ThemeError(f"{where}{key}: unknown key, allowed are {', '.join(allowed)}")


def _color(where: str, value: object) -> Rgb:
    try:
        return parse_hex(value if isinstance(value, str) else repr(value))
    except ValueError:
        raise ThemeError(f'{where}: is {value!r}, expected a colour like "#78aef2"') from None


def _share(where: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ThemeError(f"{where}: is {value!r}, expected a number from 0 to 1")
    return float(value)


def _color_list(where: str, value: object) -> tuple[Any, ...]:
    if not isinstance(value, list) or not value:
        raise ThemeError(f"{where}: is {value!r}, expected a list of at least one colour")
    if where.endswith("_16"):
        for name in value:
            if name not in ANSI_NAMES:
                raise ThemeError(f"{where}: {name!r} is not one of {', '.join(ANSI_NAMES)}")
        return tuple(ANSI_NAMES.index(name) for name in value)
    return tuple(_color(where, colour) for colour in value)
