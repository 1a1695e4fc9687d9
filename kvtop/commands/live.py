"""Watch a real model fill a paged KV pool: engine and dashboard.

  kvtop live                                   the default model, pulled at the first start
  kvtop live --num-blocks 64                   a small pool, that soon runs out
  kvtop live --traffic load.json --paused      a workload waits at the first step: . steps, space runs on
  kvtop live --model ./my-model --device cuda  any Hugging Face decoder

Press i to send requests, ? for help, q to quit. The engine runs in a process of its own, which ends with the screen.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kvtop.commands.engine_flags import add_engine_flags, add_flag, settings_from
from kvtop.engine.control import AnyCommand, Inject, Pause
from kvtop.engine.workload import read_workload
from kvtop.extra import require
from kvtop.failure import Failure
from kvtop.models.resolve import kind_of_model
from kvtop.settings import SETTINGS


def configure(parser: argparse.ArgumentParser) -> None:
    screen = parser.add_argument_group("screen")
    screen.add_argument(
        "--traffic", metavar="FILE", type=Path, help="send the requests of a workload file at the start"
    )
    screen.add_argument("--paused", action="store_true", help="start with the engine paused before its first step")
    for setting in SETTINGS:
        if setting.section == "screen":
            add_flag(screen, setting)
    add_engine_flags(parser)


def run(args: argparse.Namespace) -> int:
    first: list[AnyCommand] = [Pause()] if args.paused else []
    if args.traffic:
        first.append(Inject(requests=read_workload(args.traffic)))
    settings = settings_from(args)
    require("kvtop live", "torch", "transformers")
    kind_of_model(settings["model"])
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Failure("kvtop live draws on a terminal, and there is none here; kvtop run works without one")

    from kvtop.app.app import AppSettings
    from kvtop.app.run import run_app
    from kvtop.sources.embedded import EmbeddedSource
    from kvtop.sources.history import History
    from kvtop.sources.recorder import Recorder

    history = History()
    return run_app(
        EmbeddedSource(settings.engine, on_batch=Recorder([history]).add),
        AppSettings(
            theme=settings["theme"],
            themes_folder=settings.config_path.parent / "themes",
            pictures_folder=Path.cwd(),
            first_commands=tuple(first),
            history=history,
            warnings=settings.warnings,
        ),
    )
