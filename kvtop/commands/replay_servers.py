"""A recording of watched servers (kvtop attach --record): played on its screens, or its end printed."""

from __future__ import annotations

import argparse
import json
import sys

from kvtop.attach.replayed_fleet import ReplayedFleet
from kvtop.commands.attach_deep import DeepLook
from kvtop.commands.attach_tables import fleet_as_json, print_fleet
from kvtop.commands.engine_flags import say_screen_warnings
from kvtop.commands.frame_output import wants_frame
from kvtop.commands.screen import require_screen
from kvtop.failure import WrongUsage
from kvtop.settings import Settings
from kvtop.view.clean import clean_line
from kvtop.view.fleet import fleet_rows, fleet_total
from kvtop.view.fleet_findings import fleet_findings
from kvtop.view.slo import parse_slo


def replay_servers(args: argparse.Namespace, settings: Settings) -> int:
    """Play it, or print its end."""
    if args.step is not None:
        raise WrongUsage("--step counts an engine's steps; a recording of servers has none")
    fleet = ReplayedFleet(args.recording, args.speed)
    if fleet.lost_bytes:
        where = clean_line(str(args.recording), 500)
        print(f"kvtop: {where} is cut off at its end; everything before is there", file=sys.stderr)
    if wants_frame(args):
        say_screen_warnings(settings)
        _print_end(fleet, as_json=args.json)
        fleet.close()
        return 0
    require_screen("kvtop replay")

    from kvtop.app.from_settings import shell_settings
    from kvtop.app.watch.run import run_watch

    return run_watch(fleet, parse_slo(settings["slo"]), shell_settings(settings))


def _print_end(fleet: ReplayedFleet, *, as_json: bool) -> None:
    fleet.wind_to(fleet.end_s)
    rows = fleet_rows(fleet.watches, fleet.now_s())
    total, findings = fleet_total(rows), fleet_findings(rows)
    deep = DeepLook(fleet)
    places = fleet.places()
    if as_json:
        more = [deep.of(place) for place in places]
        print(json.dumps(fleet_as_json(rows, more, total, findings, fleet.now_s())))
    else:
        print_fleet(rows, [deep.words(place) for place in places], total, findings)
