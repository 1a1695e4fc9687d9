"""The policy lab: the engine's scheduler and pool under a workload of known lengths, without a model.

  kvtop sim                                     the published experiment's four policies, under the sound rule
  kvtop sim --published                         the published table itself, its program's fault included
  kvtop sim --policy paged --block-size 1,16,256
  kvtop sim --watermark 0,0.01,0.05             every combination of the values given is a row
  kvtop sim --charge-recompute --card h200      what preemptions cost: seconds, goodput, stalls
  kvtop sim --live                              side by side on the screen, step by step: twelve slots first
  kvtop sim --from load.kvrec --watermark 5%    what a recording, or a workload file, would have been like
  kvtop sim --from load.kvrec --live            the same side by side on the screen

4,000 requests wait at the start (Llama-3-8B, 52 * 10^9 bytes of KV); each step, running requests take what their next
token needs, the newest are preempted where blocks are short, and the queue is admitted in its order. See
docs/policy-lab.md.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kvtop.commands.bars import count_bar
from kvtop.commands.engine_flags import typed
from kvtop.commands.pool_output import say_size
from kvtop.engine.config import PREEMPT_MODES
from kvtop.engine.cost import CARDS, DEFAULT_CARD, LLAMA_3_8B_KV_BYTES_PER_TOKEN
from kvtop.engine.pool_size import PoolSize
from kvtop.failure import WrongUsage
from kvtop.lab.combinations import DEFAULTS, POLICIES, SETTINGS, combinations, varying
from kvtop.lab.experiment import REGION_BLOCK_SIZE, Experiment
from kvtop.lab.runs import Outcome, Pricing, Report, run_all
from kvtop.parsing import choice, integer, positive, power_of_two, share, size

_PARSERS: dict[str, tuple[Callable[[str], Any], str, str]] = {
    "policy": (choice(*POLICIES), "POLICY", "how KV memory is handed out: " + ", ".join(POLICIES)),
    "block_size": (power_of_two, "N", "tokens a block of the paged policy: 1 to 256, a power of two"),
    "placement": (
        choice("counted", "first-fit"),
        "HOW",
        "where a reservation lies: counted (any free slots) or first-fit (one region, as in the live engine)",
    ),
    "watermark": (share, "SHARE", "share of the pool that an admission must leave free"),
    "victim": (choice("newest", "most-blocks"), "RULE", "who is preempted: newest, most-blocks"),
    "preempted": (
        choice("restart", "resume"),
        "HOW",
        "a preempted request starts again (restart) or keeps what it generated, as in the live engine (resume)",
    ),
    "output_median": (positive, "TOKENS", "median length of the answers; by default exp(4.8), about 122"),
    "seed": (integer(0), "N", "of the workload"),
    "requests": (integer(1), "N", "requests that wait at the start"),
    "pool_tokens": (integer(1), "N", "slots of the pool, one a token"),
    "max_num_seqs": (integer(1), "N", "requests that run at once, at most"),
    "max_model_len": (integer(1), "N", "longest prompt plus answer"),
    "max_tokens": (integer(1), "N", "longest answer"),
}
_RULE_OF_PUBLISHED = ("placement", "watermark", "victim", "preempted")
_OF_WHAT_IF = ("policy", "block_size", "watermark", "victim", "pool_tokens", "max_num_seqs", "max_model_len")
_WHAT_IF_PARSERS: dict[str, tuple[Callable[[str], Any], str, str]] = {
    "max_num_batched_tokens": (integer(1), "N", "tokens a step, at most"),
    "preempt": (choice(*PREEMPT_MODES), "HOW", "recompute, or swap to the recorded swap space"),
}
_COST_FLAGS: dict[str, tuple[Callable[[str], float], str, str]] = {
    "weights_bytes": (size, "SIZE", "what a step reads of the model"),
    "kv_bytes_per_token": (size, "SIZE", "KV of a token over all layers"),
    "bandwidth_bytes_per_s": (size, "SIZE", "memory a step reads in a second"),
    "prefill_tokens_per_s": (positive, "N", "tokens prefilled in a second"),
    "pcie_bytes_per_s": (size, "SIZE", "KV moved over PCIe in a second, one way"),
    "overhead_seconds": (positive, "SECONDS", "a step's fixed part"),
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--published", action="store_true", help="the published program's rule, with its fault: its table, exactly"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the rows as JSON, unrounded")
    form.add_argument("--csv", action="store_true", help="print the rows as CSV, unrounded")
    form.add_argument("--live", action="store_true", help="watch up to four rows side by side, in lock step")
    experiment = parser.add_argument_group("experiment", "each flag takes several values: 16,32,64")
    standard = Experiment()
    for name in SETTINGS:
        parse, metavar, text = _PARSERS[name]
        values = DEFAULTS.get(name, (getattr(standard, name),))
        shown = "" if values == (None,) else f" (default: {'all' if name == 'policy' else _listed(values)})"
        experiment.add_argument(_flag(name), type=_several(parse), metavar=f"{metavar}[,…]", help=text + shown)
    what_if = parser.add_argument_group("what if", f"with {', '.join(map(_flag, _OF_WHAT_IF))}: other settings for it")
    what_if.add_argument("--from", dest="source", metavar="FILE", type=Path, help="a recording, or a workload (.json)")
    for name, (parse, metavar, text) in _WHAT_IF_PARSERS.items():
        what_if.add_argument(_flag(name), type=_several(parse), metavar=f"{metavar}[,…]", help=text)
    cost = parser.add_argument_group("cost model", "any of these adds what the schedule costs; none changes it")
    cost.add_argument(
        "--charge-recompute", action="store_true", help="computing lost KV again takes time, and stalls everybody"
    )
    cost.add_argument("--card", choices=tuple(CARDS), help=f"Llama-3-8B on this card (default: {DEFAULT_CARD})")
    for name, (parse, metavar, text) in _COST_FLAGS.items():
        cost.add_argument(_flag(name), type=typed(parse), metavar=metavar, help=text)


def run(args: argparse.Namespace) -> int:
    given = {name: value for name in (*SETTINGS, *_WHAT_IF_PARSERS) if (value := getattr(args, name)) is not None}
    if args.source is not None:
        return _run_what_if(args, given)
    for name in _WHAT_IF_PARSERS:
        if name in given:
            raise WrongUsage(f"{_flag(name)} goes with --from FILE")
    if args.published:
        _refuse_other_rules(given)
    experiments = combinations(given)
    for experiment in experiments:
        _refuse_impossible(experiment)
    if args.live:
        return _run_live(args, experiments, bool(given))
    pricing = _pricing(args)
    _say_pool(experiments)
    total = sum(experiment.requests for experiment in experiments)
    outcomes = run_all(experiments, args.published, pricing, lambda: _bar(total))
    _say_what_did_not_run(outcomes)
    if args.json:
        print(json.dumps(rows(outcomes), indent=1))
    elif args.csv:
        _print_csv(rows(outcomes))
    else:
        from kvtop.commands.sim_tables import print_outcomes

        print_outcomes(outcomes, args.published)
    return 0


def _run_live(args: argparse.Namespace, experiments: list[Experiment], given: bool) -> int:
    from kvtop.commands.sim_live import presets_for, show

    if _pricing(args) is not None:
        raise WrongUsage("--live shows steps, and what they cost is known at the end; leave the cost model's flags out")
    return show(presets_for(experiments, given, args.published))


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _listed(values: tuple[Any, ...]) -> str:
    return ",".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)


def _run_what_if(args: argparse.Namespace, given: dict[str, Any]) -> int:
    from kvtop.commands.sim_what_if import print_what_if, what_if_live, what_if_rows

    foreign = [name for name in given if name not in _OF_WHAT_IF and name not in _WHAT_IF_PARSERS]
    foreign += ["published"] if args.published else []
    foreign += ["charge_recompute"] if args.charge_recompute else []
    foreign += [name for name in ("card", *_COST_FLAGS) if getattr(args, name) is not None]
    if foreign:
        raise WrongUsage(f"{_flag(foreign[0])} does not go with --from: it belongs to the lab's own workload")
    if args.live:
        from kvtop.commands.sim_live import show
        from kvtop.lab.presets import PRESETS

        return show([what_if_live(args.source, given), *PRESETS])
    listed = what_if_rows(args.source, given)
    if args.json:
        print(json.dumps(listed, indent=1))
    elif args.csv:
        _print_csv([{**row, "changed": _changes_in_words(row["changed"])} for row in listed])
    else:
        print_what_if(listed)
    return 0


def _changes_in_words(changes: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in changes.items())


def _several(parse: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """A flag's values, with commas between them."""
    return lambda text: [typed(parse)(part.strip()) for part in text.split(",")]


def _refuse_other_rules(given: dict[str, Any]) -> None:
    for name in _RULE_OF_PUBLISHED:
        if name in given:
            raise WrongUsage(f"--published is one fixed rule; leave {_flag(name)} out, or leave --published out")


def _refuse_impossible(experiment: Experiment) -> None:
    if experiment.pool_tokens < experiment.pool_block_size:
        raise WrongUsage(
            f"--pool-tokens {experiment.pool_tokens} holds no block of {experiment.pool_block_size} tokens; give more"
        )


def _pricing(args: argparse.Namespace) -> Pricing | None:
    changes = {name: getattr(args, name) for name in _COST_FLAGS if getattr(args, name) is not None}
    if not (args.charge_recompute or args.card or changes):
        return None
    for name, value in changes.items():
        if not value > 0:
            raise WrongUsage(f"{_flag(name)} is {value:g}, expected above 0")
    return Pricing(replace(CARDS[args.card or DEFAULT_CARD], **changes), args.charge_recompute)


def _say_pool(experiments: list[Experiment]) -> None:
    """The pool as a serving engine would announce it, where all rows have the same."""
    pools = {(experiment.pool_tokens, experiment.max_model_len) for experiment in experiments}
    if len(pools) == 1:
        ((tokens, max_model_len),) = pools
        blocks = tokens // REGION_BLOCK_SIZE
        say_size(PoolSize(blocks, REGION_BLOCK_SIZE, LLAMA_3_8B_KV_BYTES_PER_TOKEN), max_model_len)


@contextmanager
def _bar(total: int) -> Iterator[Report]:
    with count_bar(total, "requests") as update:
        yield lambda ended: update(ended, "")


def _say_what_did_not_run(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        for count, words in (
            (outcome.rejected, "could never run and were rejected: larger than the pool, or than max_model_len"),
            (outcome.exhausted, "outgrew the pool even alone, and ended early"),
        ):
            if count:
                print(f"kvtop: warning: {outcome.experiment.policy}: {count:,} requests {words}", file=sys.stderr)


def rows(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """The table as data: the figures, a key for every other setting with several values, and the cost if there is
    one."""
    extra = varying([outcome.experiment for outcome in outcomes])
    listed = []
    for outcome in outcomes:
        figures = dict(outcome.figures)
        figures |= {name: getattr(outcome.experiment, name) for name in extra}
        if outcome.price is not None:
            figures["cost"] = asdict(outcome.price)
        listed.append(figures)
    return listed


def _print_csv(listed: list[dict[str, Any]]) -> None:
    flat = [figures | {f"cost_{k}": v for k, v in figures.pop("cost", {}).items()} for figures in listed]
    writer = csv.DictWriter(sys.stdout, list(flat[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
