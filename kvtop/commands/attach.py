"""Watch vLLM and SGLang servers: the fleet, each server, its KV events, and with our exporter inside its true tables.

  kvtop attach http://gpu-1:8000 gpu-2:8000          the fleet, a row a data-parallel rank; enter opens one
  kvtop attach gpu-1:8000                            one server directly
  kvtop attach --targets servers.txt --once --json   once, as JSON, for a script
  kvtop attach gpu-1:8000 --once --fail-if 'usage>0.95 for 60s' --fail-if 'ttft_p95>2'

A server's address is all that is needed: publishers of KV events are asked for, exporters of true tables looked for. A
file of targets has one address a line, `name = address` to give it a name, events=, replay=, topic=, tables= and ranks=
behind it as with the flags, # for comments.

kvtop replay plays what --record wrote; true tables are recorded with r on their screen.

Without a screen (--once, --json, --fail-if, or no terminal) a table is printed, again and again unless --once. A
condition names a figure of any rank (usage, running, waiting, preemptions_per_min, hit_rate, prompt_tokens_per_s,
generated_tokens_per_s, age_s, ttft_p95, inter_token_p99, e2e_p50 ...), or of all together (total.waiting>100). Ends
with 1 if a condition is met, if one cannot be judged, or, with --once, if a server does not answer.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from kvtop.attach.conditions import Condition, ConditionError, Verdict, parse_condition
from kvtop.attach.fleet import Fleet
from kvtop.attach.fleet_recorder import FleetRecorder
from kvtop.attach.record_format import MAGIC
from kvtop.attach.scraper import TIMEOUT_SECONDS
from kvtop.attach.server import ServerWatch
from kvtop.attach.targets import Target, TargetError, distinct, parse_target, read_targets, with_options
from kvtop.commands.attach_deep import DeepLook
from kvtop.commands.attach_tables import fleet_as_json, print_fleet
from kvtop.commands.engine_flags import add_flag, say_screen_warnings, settings_from
from kvtop.commands.record_output import add_record_flags, say_recorded
from kvtop.commands.screen import has_screen
from kvtop.failure import Failure, WrongUsage
from kvtop.settings import SETTINGS, Settings
from kvtop.sources.file_sink import FileSink
from kvtop.view.fleet import fleet_rows, fleet_total
from kvtop.view.fleet_findings import fleet_findings
from kvtop.view.slo import Slo, parse_slo

POLL_SECONDS = 0.02
_ADDRESSES = ("events", "replay", "topic", "tables", "ranks")


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
    for setting in SETTINGS:
        if setting.section in ("attach", "screen"):
            add_flag(parser, setting)
    add_record_flags(parser, "metrics and KV events")
    deep = parser.add_argument_group("deeper than metrics")
    deep.add_argument(
        "--events", metavar="auto|off|ADDRESS", default="auto", help="KV events: ask the server, or tcp://HOST:5557"
    )
    deep.add_argument("--replay", metavar="ADDRESS", default="", help="with --events ADDRESS: where missed ones are")
    deep.add_argument("--topic", metavar="TEXT", default="", help="with --events ADDRESS: their topic")
    deep.add_argument(
        "--tables", metavar="auto|off|ADDRESS", default="auto", help="true tables: look for them, or tcp://HOST:5580"
    )
    deep.add_argument(
        "--ranks", metavar="N", default="", help="data-parallel ranks behind these addresses: rank n, n-th port after"
    )


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 86_400:
        raise ValueError
    return value


def run(args: argparse.Namespace) -> int:
    try:
        conditions = [parse_condition(text) for text in args.fail_if]
        targets = distinct(_targets(args))
    except (ConditionError, TargetError) as error:
        raise WrongUsage(str(error)) from None
    if not targets:
        raise WrongUsage("name a server, or a file of them with --targets")
    settings = settings_from(args)
    slo = parse_slo(settings["slo"])
    recorder = _recorder(args, targets)
    fleet = Fleet(
        targets,
        args.interval,
        args.timeout,
        events=args.events != "off",
        tables=args.tables != "off",
        recorder=recorder,
    )
    try:
        return _watch(args, fleet, conditions, slo, settings)
    finally:
        if recorder is not None:
            recorder.close()
            say_recorded(recorder.sink, recorder.failure)


def _watch(args: argparse.Namespace, fleet: Fleet, conditions: list[Condition], slo: Slo, settings: Settings) -> int:
    screen = not (args.once or args.json or args.fail_if) and has_screen()
    if screen:
        from kvtop.app.from_settings import shell_settings
        from kvtop.app.watch.run import run_watch

        return run_watch(fleet, slo, shell_settings(settings))
    say_screen_warnings(settings)
    return Look(fleet, conditions, args).run()


def _recorder(args: argparse.Namespace, targets: list[Target]) -> FleetRecorder | None:
    """What writes the file that was asked for."""
    if args.record is None:
        if args.record_limit is not None:
            raise WrongUsage("--record-limit bounds a recording; say with --record FILE where it goes")
        return None
    return FleetRecorder(FileSink(args.record, args.record_limit, MAGIC), targets)


def _targets(args: argparse.Namespace) -> list[Target]:
    """The servers that were named, with what the flags say of one."""
    targets = [parse_target(url) for url in args.urls] + (read_targets(args.targets) if args.targets else [])
    given = {name: getattr(args, name) for name in _ADDRESSES if getattr(args, name) not in ("", "auto", "off")}
    if given and len(targets) > 1:
        flag = f"--{next(iter(given))}"
        raise WrongUsage(f"{flag} speaks of one server; with several write it behind each address, or in --targets")
    if ("replay" in given or "topic" in given) and "events" not in given:
        raise WrongUsage("--replay and --topic need --events ADDRESS: without it the server is asked for all three")
    return [with_options(target, given) for target in targets] if given else targets


class Look:
    """One run of the command."""

    def __init__(self, fleet: Fleet, conditions: list[Condition], args: argparse.Namespace) -> None:
        self._fleet = fleet
        self._watches = fleet.watches
        self._deep = DeepLook(fleet)
        self._verdicts = [Verdict(condition) for condition in conditions]
        self._args = args

    def run(self) -> int:
        self._fleet.start()
        try:
            return self._once() if self._args.once else self._again_and_again()
        finally:
            self._deep.close()
            self._fleet.close()

    def _once(self) -> int:
        """Two readings of each server, since rates need two; longer while a condition is on its way to be met."""
        while not (all(_is_known(watch) for watch in self._watches) and self._deep.is_settled()):
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
        self._fleet.poll()
        self._deep.poll()
        time.sleep(POLL_SECONDS)

    def _judge(self) -> None:
        now_s = time.monotonic()
        rows = fleet_rows(self._watches, now_s)
        total = fleet_total(rows)
        for verdict in self._verdicts:
            verdict.judge(rows, total, now_s)

    def _print(self) -> None:
        rows = fleet_rows(self._watches, time.monotonic())
        places = self._fleet.places()
        total, findings = fleet_total(rows), fleet_findings(rows)
        if self._args.json:
            deep = [self._deep.of(place) for place in places]
            print(json.dumps(fleet_as_json(rows, deep, total, findings, time.time())), flush=True)
        else:
            print_fleet(rows, [self._deep.words(place) for place in places], total, findings)

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
