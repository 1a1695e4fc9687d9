"""The flags that describe an engine, shared by every command that starts one, and their outcome.

The flags come from the table in ``kvtop.settings``. A flag that was not given leaves no trace in the namespace, so that
the environment and the config file can speak for it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kvtop.settings import SETTINGS, Setting, Settings, gather
from kvtop.view.clean import clean_line

_POOL_SIZE = ("num_blocks", "kv_memory")


def add_engine_flags(parser: argparse.ArgumentParser) -> None:
    """Add all flags of the engine and of where its model comes from."""
    group = parser.add_argument_group("engine")
    pool_size = group.add_mutually_exclusive_group()
    for setting in SETTINGS:
        if setting.section in ("engine", "model"):
            add_flag(pool_size if setting.name in _POOL_SIZE else group, setting)


def add_flag(group: argparse._ActionsContainer, setting: Setting) -> None:
    """Add one setting's flag; its help says the default."""
    shown = "" if setting.default in (None, "") else f" (default: {_flag_text(setting.default)})"
    text = (setting.help + shown).replace("%", "%%")
    if isinstance(setting.default, bool):
        action = argparse.BooleanOptionalAction
        group.add_argument(setting.flag, dest=setting.name, action=action, default=argparse.SUPPRESS, help=text)
        return
    group.add_argument(
        setting.flag,
        dest=setting.name,
        type=typed(setting.parse),
        metavar=setting.metavar,
        default=argparse.SUPPRESS,
        help=text,
    )


def settings_from(args: argparse.Namespace) -> Settings:
    """Every setting's value under the flags that were given."""
    names = {setting.name for setting in SETTINGS}
    return gather({name: value for name, value in vars(args).items() if name in names})


def say_warnings(settings: Settings) -> None:
    """What was wrong in the environment or the config file, on stderr."""
    for warning in settings.warnings:
        print(f"kvtop: warning: {clean_line(warning, limit=1000)}", file=sys.stderr)


def say_screen_warnings(settings: Settings) -> None:
    """Those, and what a dashboard would say of its themes."""
    from kvtop.app.theme_files import theme_faults

    faults = theme_faults(settings["theme"], settings.place_of("theme"), settings.config_path.parent / "themes")
    say_warnings(replace(settings, warnings=(*settings.warnings, *faults)))


def typed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """``parse`` for argparse's ``type``: its ValueError, in words that follow the flag's name."""

    def parse_flag(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"is {text!r}, expected {error}") from None

    return parse_flag


def _flag_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
