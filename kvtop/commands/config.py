"""Show every setting, its value and where it came from.

A value is taken from the first that has one: flag, environment variable (KVTOP_*), config file, default. The config
file is TOML with the sections [engine], [model], [screen] and [keys]:

    [engine]
    block_size = 32
    watermark = 0.05

    [screen]
    theme = "light"

    [keys]
    pause = ["space", "f5"]

kvtop config --keys lists what a key can do, with the name it has under [keys].
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace

from kvtop.commands.engine_flags import say_screen_warnings, say_warnings
from kvtop.settings import SETTINGS, Settings, gather
from kvtop.view.clean import clean_line


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keys", action="store_true", help="list the dashboard's actions and their keys instead")
    parser.add_argument("--json", action="store_true", help="print as JSON")


def run(args: argparse.Namespace) -> int:
    settings = gather({})
    say_screen_warnings(settings)
    keys = _checked_keys(settings) if settings.keys else {}
    if args.keys:
        _print_actions(keys, as_json=args.json)
    elif args.json:
        print(json.dumps(_as_json(settings, keys), indent=2))
    else:
        _print_table(settings, keys)
    return 0


def _checked_keys(settings: Settings) -> dict[str, str]:
    """The keys that will count, by action; what is wrong with the others on stderr."""
    from kvtop.app.key_map import key_map

    keys, wrong = key_map(settings.keys, str(settings.config_path))
    say_warnings(replace(settings, warnings=tuple(wrong)))
    return keys


def _print_actions(keys: dict[str, str], *, as_json: bool) -> None:
    """Everything a key can do, under the name that [keys] knows it by."""
    from rich.table import Table
    from rich.text import Text

    from kvtop.app.actions import ACTIONS
    from kvtop.app.actions.action import key_words
    from kvtop.app.watch.actions import WATCH_ACTIONS
    from kvtop.commands.table_output import table_console

    everything = {**ACTIONS, **{name: action for name, action in WATCH_ACTIONS.items() if name not in ACTIONS}}
    rows = [(name, keys.get(name, action.keys), action.panel, action.help) for name, action in everything.items()]
    if as_json:
        names = ("action", "keys", "panel", "help")
        print(json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=2))
        return
    table = Table(box=None, pad_edge=False)
    for title in ("action", "keys", "only in", "what it does"):
        table.add_column(title, overflow="fold")
    for name, bound, panel, words in rows:
        table.add_row(name, Text(key_words(bound)), panel, words, style="" if name in keys else "dim")
    table_console().print(table)


def _as_json(settings: Settings, keys: dict[str, str]) -> dict[str, object]:
    return {
        "config_file": str(settings.config_path),
        "config_file_exists": settings.config_path.is_file(),
        "settings": [
            {
                "key": setting.key,
                "value": settings.values[setting.name].value,
                "origin": settings.values[setting.name].origin,
                "place": settings.values[setting.name].place,
                "default": setting.default,
                "flag": setting.flag,
                "variable": setting.variable,
                "help": setting.help,
            }
            for setting in SETTINGS
        ],
        "keys": {name: bound.split(",") for name, bound in keys.items()},
    }


def _print_table(settings: Settings, keys: dict[str, str]) -> None:
    from rich.table import Table
    from rich.text import Text

    from kvtop.commands.table_output import table_console

    table = Table(box=None, pad_edge=False)
    for title in ("setting", "value", "from"):
        table.add_column(title, overflow="fold")
    for setting in SETTINGS:
        value = settings.values[setting.name]
        origin = {"environment": value.place, "config": "config file"}.get(value.origin, value.origin)
        table.add_row(setting.key, Text(_shown(value.value)), origin, style="" if value.origin != "default" else "dim")
    for name, bound in keys.items():
        table.add_row(f"keys.{name}", Text(bound.replace(",", ", ")), "config file")
    console = table_console()
    console.print(table)
    state = "" if settings.config_path.is_file() else " (not there)"
    console.print(Text(f"\nconfig file: {clean_line(str(settings.config_path), limit=1000)}{state}"), soft_wrap=True)


def _shown(value: object) -> str:
    if value is None or value == "":
        return "–"
    return str(value).lower() if isinstance(value, bool) else clean_line(str(value), limit=500)
