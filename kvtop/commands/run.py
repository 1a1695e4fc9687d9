"""Run a workload file through the engine without a screen, and print what came of it.

  kvtop run load.json --num-blocks 512           a table: each request's answer, then the run's figures
  kvtop run load.json --json > out.json          the same as JSON: token ids, texts, times, counts
  kvtop run load.json --num-blocks 40 --check    a pool that must preempt, every rule of it checked after every step

The workload is described in docs/workload.md. Ends with 1 if an answer ended rejected, pool_exhausted or error; what
there is is printed all the same.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvtop.commands.bars import count_bar, stage_bar
from kvtop.commands.engine_flags import add_engine_flags, say_warnings, settings_from
from kvtop.commands.pool_output import say_pool
from kvtop.commands.run_report import BAD_ENDS, RunReport
from kvtop.commands.run_tables import print_run, run_as_json
from kvtop.engine.control import Inject
from kvtop.engine.events import Batch
from kvtop.engine.workload import WorkloadError, read_workload
from kvtop.extra import require
from kvtop.view.clean import clean_line

if TYPE_CHECKING:
    from kvtop.engine.engine import Engine

_MOST_IDLE_SECONDS = 0.05
"""How long the run may sleep at a time while it waits for an arrival."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("workload", metavar="WORKLOAD", type=Path, help="a workload file (JSON)")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    parser.add_argument("--check", action="store_true", help="check every rule of the pool after every step (slow)")
    add_engine_flags(parser)


def run(args: argparse.Namespace) -> int:
    requests = read_workload(args.workload)
    settings = settings_from(args)
    say_warnings(settings)
    require("kvtop run", "torch", "transformers")
    with stage_bar() as report:
        report("starting the engine", 0, 0)
        from kvtop.engine.assembly import build_engine  # torch and transformers, seconds

        engine = build_engine(settings.engine, report, _self_check() if args.check else None)
    say_pool(engine.info)
    refusal = engine.apply(Inject(requests=requests)).error
    if refusal:
        raise WorkloadError(f"{args.workload}: {refusal}")
    outcome = RunReport(requests, time.monotonic())
    try:
        _drive(engine, outcome)
    except Exception:
        outcome.end_unfinished()
        _print(engine.snapshot(), outcome, as_json=args.json)
        raise
    _print(engine.snapshot(), outcome, as_json=args.json)
    ends = [output.finish_reason for report in outcome.requests.values() for output in report.outputs.values()]
    return 1 if any(end in BAD_ENDS for end in ends) else 0


def _self_check() -> Callable[[Any], None]:
    from kvtop.engine.check import check

    return check


def _drive(engine: Engine, outcome: RunReport) -> None:
    """Step until everything that was asked for has ended."""
    with count_bar(len(outcome.requests), "requests") as update:
        while engine.has_work:
            batch = engine.step()
            if batch is None:
                time.sleep(min(engine.seconds_to_next_arrival() or 0, _MOST_IDLE_SECONDS))
                continue
            outcome.apply(batch)
            update(outcome.ended_requests, _figures(batch, outcome))


def _figures(batch: Batch, outcome: RunReport) -> str:
    speed = f"{outcome.generated_tokens / outcome.wall_s:,.0f} tok/s" if outcome.wall_s else "– tok/s"
    return f"{speed} · step {batch.step:,} · {outcome.preemptions:,} preempted"


def _print(final: Batch, outcome: RunReport, *, as_json: bool) -> None:
    outcome.apply(final)
    assert final.snapshot is not None
    for report in outcome.requests.values():
        if report.message:
            print(f"kvtop: request {clean_line(report.request.id)!r}: {clean_line(report.message)}", file=sys.stderr)
    if as_json:
        print(json.dumps(run_as_json(final.snapshot, outcome)))
    else:
        print_run(final.snapshot, outcome)
