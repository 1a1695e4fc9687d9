"""Watch vLLM and SGLang servers by what they tell of themselves: a row a data-parallel rank, and what is wrong.

  kvtop attach http://gpu-1:8000 gpu-2:8000          a table, again and again, until Ctrl-C
  kvtop attach --targets servers.txt --once --json   once, as JSON, for a script
  kvtop attach gpu-1:8000 --once --fail-if 'usage>0.95 for 60s' --fail-if 'ttft_p95>2'

A file of targets has one address a line, `name = address` to give it a name, # for comments. A condition names a figure
of any rank (usage, running, waiting, preemptions_per_min, hit_rate, prompt_tokens_per_s, generated_tokens_per_s, age_s,
ttft_p95, inter_token_p99, e2e_p50 ...), or of all together (total.waiting>100). Ends with 1 if a condition is met, if
one cannot be judged, or, with --once, if a server does not answer.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from kvtop.attach.conditions import Condition, ConditionError, Verdict, parse_condition
from kvtop.attach.scraper import TIMEOUT_SECONDS, Scraper
from kvtop.attach.server import ServerWatch
from kvtop.attach.targets import Target, TargetError, distinct, parse_target, read_targets
from kvtop.commands.attach_tables import fleet_as_json, print_fleet
from kvtop.failure import Failure, WrongUsage
from kvtop.view.fleet import fleet_rows, fleet_total
from kvtop.view.fleet_findings import fleet_findings

POLL_SECONDS = 0.02


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "urls", metavar="URL", nargs="*", help="a server's address; http:// and /metrics are understood"
    )
    parser.add_argument("--targets", metavar="FILE", type=Path, help="a file of addresses, one a line")
    parser.add_argument("--once", action="store_true", help="look once, print, and end")
    parser.add_argument("--json", action="store_true", help="print JSON, an object a look")
    parser.add_argument(
        "--fail-if", metavar="CONDITION", action="append", default=[], help="end with 1 when this holds; repeatable"
    )
    parser.add_argument(
        "--interval", metavar="SECONDS", type=_seconds, default=1.0, help="time between two looks (default 1)"
    )
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=_seconds, default=TIMEOUT_SECONDS, help="wait for an answer (default 5)"
    )


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 86_400:
        raise ValueError
    return value


def run(args: argparse.Namespace) -> int:
    try:
        conditions = [parse_condition(text) for text in args.fail_if]
        targets = [parse_target(url) for url in args.urls] + (read_targets(args.targets) if args.targets else [])
    except (ConditionError, TargetError) as error:
        raise WrongUsage(str(error)) from None
    if not targets:
        raise WrongUsage("name a server, or a file of them with --targets")
    return Look(distinct(targets), conditions, args).run()


class Look:
    """One run of the command."""

    def __init__(self, targets: list[Target], conditions: list[Condition], args: argparse.Namespace) -> None:
        self._watches = [ServerWatch(target, args.interval) for target in targets]
        self._verdicts = [Verdict(condition) for condition in conditions]
        self._scraper = Scraper(self._watches, args.timeout)
        self._args = args

    def run(self) -> int:
        self._scraper.start()
        try:
            return self._once() if self._args.once else self._again_and_again()
        finally:
            self._scraper.close()

    def _once(self) -> int:
        """Two readings of each server, since rates need two; longer while a condition is on its way to be met."""
        while not all(_is_known(watch) for watch in self._watches):
            self._poll()
        self._judge()
        while any(verdict.is_open for verdict in self._verdicts) and not any(v.failed for v in self._verdicts):
            self._poll()
            self._judge()
        self._print()
        return self._end(dead=True)

    def _again_and_again(self) -> int:
        next_s = time.monotonic() + self._args.interval
        while True:
            self._poll()
            if time.monotonic() < next_s:
                continue
            next_s += self._args.interval
            self._print()
            self._judge()
            if any(verdict.failed for verdict in self._verdicts):
                return self._end(dead=False)

    def _poll(self) -> None:
        self._scraper.poll()
        time.sleep(POLL_SECONDS)

    def _judge(self) -> None:
        now_s = time.monotonic()
        rows = fleet_rows(self._watches, now_s)
        total = fleet_total(rows)
        for verdict in self._verdicts:
            verdict.judge(rows, total, now_s)

    def _print(self) -> None:
        rows = fleet_rows(self._watches, time.monotonic())
        total, findings = fleet_total(rows), fleet_findings(rows)
        if self._args.json:
            print(json.dumps(fleet_as_json(rows, total, findings, time.time())), flush=True)
        else:
            print_fleet(rows, total, findings)

    def _end(self, dead: bool) -> int:
        """Say on stderr what failed; the exit code."""
        reasons = [verdict.failed for verdict in self._verdicts if verdict.failed]
        reasons += [why for verdict in self._verdicts if not verdict.failed for why in verdict.unknown.values()]
        if dead:
            reasons += [f"{w.target.name}: {w.health.reason}" for w in self._watches if w.health.reason]
        for reason in reasons[:-1]:
            print(f"kvtop: {reason}", file=sys.stderr)
        if reasons:
            raise Failure(reasons[-1])
        return 0


def _is_known(watch: ServerWatch) -> bool:
    """Rates can be told, or it is plain that nothing will be."""
    return bool(watch.health.reason) or any(history.span_s() > 0 for history in watch.ranks.values())
