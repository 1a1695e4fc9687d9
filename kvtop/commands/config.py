"""Show every setting, its value and where it came from.

A value is taken from the first that has one: flag, environment variable (KVTOP_*), config file, default. The config
file is TOML with the sections [engine], [model] and [screen]:

    [engine]
    block_size = 32
    watermark = 0.05

    [screen]
    theme = "light"
"""

from __future__ import annotations

import argparse
import json

from kvtop.commands.engine_flags import say_warnings
from kvtop.settings import SETTINGS, Settings, gather
from kvtop.view.clean import clean_line


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the settings as JSON")


def run(args: argparse.Namespace) -> int:
    settings = gather({})
    say_warnings(settings)
    if args.json:
        print(json.dumps(_as_json(settings), indent=2))
    else:
        _print_table(settings)
    return 0


def _as_json(settings: Settings) -> dict[str, object]:
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
    }


def _print_table(settings: Settings) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for title in ("setting", "value", "from"):
        table.add_column(title, overflow="fold")
    for setting in SETTINGS:
        value = settings.values[setting.name]
        origin = {"environment": value.place, "config": "config file"}.get(value.origin, value.origin)
        table.add_row(setting.key, Text(_shown(value.value)), origin, style="" if value.origin != "default" else "dim")
    console = Console(highlight=False)
    console.print(table)
    state = "" if settings.config_path.is_file() else " (not there)"
    console.print(Text(f"\nconfig file: {clean_line(str(settings.config_path), limit=1000)}{state}"), soft_wrap=True)


def _shown(value: object) -> str:
    if value is None or value == "":
        return "–"
    return str(value).lower() if isinstance(value, bool) else clean_line(str(value), limit=500)
