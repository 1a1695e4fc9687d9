"""Watch a real model fill a paged KV pool: engine and dashboard.

  kvtop live                                   the default model, pulled at the first start
  kvtop live --num-blocks 64                   a small pool, that soon runs out
  kvtop live --traffic load.json --paused      a workload waits at the first step: . steps, space runs on
  kvtop live --model ./my-model --device cuda  any Hugging Face decoder
  kvtop live --sim                             at once, without a model: the real scheduler on made-up words
  kvtop live --record load.kvrec               everything that happens, for kvtop replay
  kvtop live --listen                          clients can send requests to http://127.0.0.1:8000/v1 (see kvtop serve)
  kvtop live --traffic load.json --once        no screen: one frame as text when all requests have ended
  kvtop live --engine vllm -- --tensor-parallel-size 2
                                               the same over a vLLM, which is started and ended with the screen

Press i to send requests, ? for help, q to quit. The engine runs in a process of its own, which ends with the screen.

Without a screen (--once, --json) the frame is printed when the engine is ready; with --traffic, when every request has
ended or --steps N steps were computed, whichever comes first. Ends with 0 when a frame was printed, 1 when the engine
failed, 2 for flags that do not go together.

With --engine vllm the server is a vLLM of the Python that --vllm-python names, in which kvtop is installed too; what
stands after -- are its own flags. Pausing and stepping it needs --control. docs/vllm.md tells more.
"""

from __future__ import annotations

import argparse
import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kvtop.commands.engine_flags import add_engine_flags, add_flag, say_screen_warnings, settings_from, typed
from kvtop.commands.frame_output import add_frame_flags, print_frame, state_of_engine, wants_frame
from kvtop.commands.listen import Hearing, add_listen_flags, both, front_beside_screen
from kvtop.commands.pool_output import say_pool
from kvtop.commands.record_output import add_record_flags, recording_of
from kvtop.commands.screen import require_screen
from kvtop.commands.serve_flags import exposure
from kvtop.commands.vllm_flags import add_vllm_flags, check_vllm_flags, vllm_plan
from kvtop.engine.control import AnyCommand, Inject, Pause, Step
from kvtop.engine.pool_size import no_swap_warning
from kvtop.engine.requests import Request
from kvtop.engine.workload import read_workload
from kvtop.extra import require
from kvtop.failure import WrongUsage
from kvtop.parsing import integer
from kvtop.settings import SETTINGS, Settings

if TYPE_CHECKING:
    from kvtop.sources.source import Source
    from kvtop.view.pool_view import PoolView

_OF_A_MODEL = ("model", "device", "dtype", "model_dir", "model_source")
"""Settings that a simulated engine has no use for."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sim", action="store_true", help="no model: words and step times are made up")
    screen = parser.add_argument_group("screen")
    screen.add_argument(
        "--traffic", metavar="FILE", type=Path, help="send the requests of a workload file at the start"
    )
    screen.add_argument("--paused", action="store_true", help="start with the engine paused before its first step")
    for setting in SETTINGS:
        if setting.section == "screen":
            add_flag(screen, setting)
    frame = add_frame_flags(parser)
    frame.add_argument(
        "--steps", metavar="N", type=typed(integer(1)), help="with --traffic: print after N steps at the latest"
    )
    add_record_flags(parser)
    add_listen_flags(parser)
    add_engine_flags(parser)
    add_vllm_flags(parser)


def run(args: argparse.Namespace) -> int:
    _refuse_what_does_not_go_together(args)
    traffic = read_workload(args.traffic) if args.traffic else []
    settings = settings_from(args)
    if not args.sim and args.engine == "kvtop":
        from kvtop.models.resolve import kind_of_model

        require("kvtop live", "torch", "transformers")
        kind_of_model(settings["model"])
    if wants_frame(args):
        return _print_one_frame(args, settings, traffic)
    require_screen("kvtop live")
    return _show(args, settings, traffic)


def _refuse_what_does_not_go_together(args: argparse.Namespace) -> None:
    given = [setting.flag for setting in SETTINGS if setting.name in _OF_A_MODEL and hasattr(args, setting.name)]
    if args.sim and given:
        raise WrongUsage(f"--sim runs no model; leave out {given[0]}")
    check_vllm_flags(args)
    if args.steps is not None and not (wants_frame(args) and args.traffic):
        raise WrongUsage("--steps says when to print a frame; it needs --traffic, and --once or --json")
    if args.listen is not None and wants_frame(args):
        raise WrongUsage("--listen goes with the dashboard; without a screen use kvtop serve")
    if args.listen is not None and args.engine == "vllm":
        raise WrongUsage(
            "--listen is for kvtop's own engine; a vLLM answers clients itself, where --port after -- says"
        )
    if args.paused and wants_frame(args):
        raise WrongUsage("--paused waits for somebody to go on; with --once or --json use --steps N")


def _show(args: argparse.Namespace, settings: Settings, traffic: list[Request]) -> int:
    from kvtop.app.from_settings import app_settings
    from kvtop.app.recording import RecordingSwitch
    from kvtop.app.run import run_app
    from kvtop.sources.history import History
    from kvtop.sources.recorder import Recorder

    first: list[AnyCommand] = [Pause()] if args.paused else []
    if traffic:
        first.append(Inject(requests=traffic))
    if args.engine == "kvtop" and (warning := no_swap_warning(settings["preempt"], settings["swap_memory"])):
        settings = replace(settings, warnings=(*settings.warnings, warning))
    history = History()
    recorder = Recorder([history])
    with recording_of(args, recorder) as sink, contextlib.ExitStack() as ending:
        hear = Hearing(recorder.add)
        listening = ""
        if args.listen is not None:
            front = front_beside_screen(args, lambda command: source.send(command))
            ending.callback(front.close)
            hear = Hearing(both(recorder.add, front.hear_batch), front.hear_word)
            listening = front.address.url
            settings = replace(settings, warnings=(*settings.warnings, *exposure(front.settings)))
        source = _engine_source(args, settings, hear)
        return run_app(
            source,
            app_settings(
                settings,
                first_commands=tuple(first),
                history=history,
                recording=RecordingSwitch(recorder, Path.cwd(), sink),
                listening=listening,
            ),
        )


def _print_one_frame(args: argparse.Namespace, settings: Settings, traffic: list[Request]) -> int:
    from kvtop.commands.bars import stage_bar
    from kvtop.sources.recorder import Recorder
    from kvtop.sources.watch import watch_until
    from kvtop.view.findings import FindingsLog

    say_screen_warnings(settings)
    commands: list[AnyCommand] = [Inject(requests=traffic)] if traffic else []
    if args.steps is not None:
        commands = [Pause(), *commands, Step(steps=args.steps)]

    expected = len(traffic) if args.engine == "kvtop" else sum(request.n for request in traffic)  # vLLM counts samples

    def done(view: PoolView) -> bool:
        ended = view.counters.completed + view.counters.rejected
        return ended >= expected or (args.steps is not None and view.counters.steps >= args.steps)

    recorder, findings = Recorder([]), FindingsLog()
    with recording_of(args, recorder):
        source = _engine_source(args, settings, Hearing(recorder.add if args.record else None))
        try:
            with stage_bar() as report:
                view = watch_until(source, commands, done, report, findings.observe)
        finally:
            source.close()
    if view.info is not None:
        say_pool(view.info)
    print_frame(view, state_of_engine(view), findings.renew(view), as_json=args.json)
    return 0


def _engine_source(args: argparse.Namespace, settings: Settings, hear: Hearing) -> Source:
    if args.engine == "vllm":
        from kvtop.sources.vllm import VllmSource

        return VllmSource(vllm_plan(args, settings), hear.batch)
    from kvtop.sources.embedded import ENGINE_COMMAND, SIMULATOR_COMMAND, EmbeddedSource

    return EmbeddedSource(settings.engine, SIMULATOR_COMMAND if args.sim else ENGINE_COMMAND, hear.batch, hear.word)
