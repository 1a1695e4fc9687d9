"""The flags of ``kvtop live --engine vllm``, and the plan that comes of them: what is started, by which Python, how."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kvtop.commands.engine_flags import add_flag, typed
from kvtop.failure import WrongUsage
from kvtop.models.resolve import kind_of_model, resolve_model
from kvtop.parsing import integer
from kvtop.settings import SETTINGS, Settings

if TYPE_CHECKING:
    from kvtop.sources.vllm_command import VllmPlan

_OF_ANY_MODEL = ("model", "model_dir", "model_source", "prefix_cache")
_OF_VLLM = ("vllm_python", "control")


def add_vllm_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("vLLM")
    group.add_argument(
        "--engine", choices=("kvtop", "vllm"), default="kvtop", help="kvtop's own engine, or a vLLM that is started"
    )
    for setting in SETTINGS:
        if setting.section == "vllm":
            add_flag(group, setting)
    group.add_argument(
        "--rank", metavar="N", type=typed(integer(0)), help="the data-parallel rank that is shown (default: 0)"
    )
    group.add_argument(
        "vllm_flags", metavar="FLAG", nargs="*", help="after --: flags of vLLM's own, passed on as they are"
    )


def check_vllm_flags(args: argparse.Namespace) -> None:
    """Raise WrongUsage for flags of one engine that were given to the other."""
    from kvtop.sources.vllm_command import FLAGS

    if args.engine == "kvtop":
        given = [setting.flag for setting in SETTINGS if setting.name in _OF_VLLM and setting.name in vars(args)]
        given += ["--rank"] if args.rank is not None else []
        if given:
            raise WrongUsage(f"{given[0]} goes with --engine vllm")
        if args.vllm_flags:
            raise WrongUsage(f"{args.vllm_flags[0]}: flags after -- are vLLM's, and go with --engine vllm")
        return
    if args.sim:
        raise WrongUsage("--sim is kvtop's own engine without a model; leave out --engine vllm")
    known = {*FLAGS, *_OF_ANY_MODEL}
    for setting in SETTINGS:
        if setting.section in ("engine", "model") and setting.name in vars(args) and setting.name not in known:
            raise WrongUsage(f"{setting.flag} is for kvtop's own engine; vLLM's flags go after --")


def vllm_plan(args: argparse.Namespace, settings: Settings) -> VllmPlan:
    """What is to be started. Pulls the model where it is one that kvtop knows and that is not here.

    Raises:
        Failure: there is no such model, or no vLLM that can be watched.
        WrongUsage: vLLM's flags do not go together with being watched.
    """
    from kvtop.sources.vllm_command import FLAGS, VllmPlan, check_python

    python = settings["vllm_python"] or sys.executable
    ours = [
        word
        for name, flag in FLAGS.items()
        if name in vars(args)
        for word in (flag, str(settings[name] + 1 if name == "num_blocks" else settings[name]))
    ]
    if "prefix_cache" in vars(args):
        ours.append("--enable-prefix-caching" if settings["prefix_cache"] else "--no-enable-prefix-caching")
    plan = VllmPlan(
        python=python,
        model=_model(settings),
        ours=tuple(ours),
        theirs=tuple(args.vllm_flags),
        rank=args.rank or 0,
        control=settings["control"],
    )
    plan.check()
    check_python(python)
    return plan


def _model(settings: Settings) -> str:
    """The model as vLLM is told it: a hub id as it is, everything else as a path."""
    model = settings["model"]
    match kind_of_model(model):
        case "known":
            from kvtop.commands.bars import stage_bar

            with stage_bar() as report:
                folder = resolve_model(
                    model, model_dir=settings["model_dir"], source=settings["model_source"], report=report
                )
            return str(folder)
        case "hub":
            return str(model)
        case _:
            return str(Path(model).expanduser().absolute())
