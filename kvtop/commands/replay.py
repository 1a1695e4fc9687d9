"""Play a recording on the dashboard: pause, step, wind to and fro; what it shows at a step is always the same.

  kvtop replay load.kvrec                     from the beginning, at the pace at which it was recorded
  kvtop replay load.kvrec --speed 4           four times as fast
  kvtop replay load.kvrec --step 1284         paused at the end of that step: , steps back and . forward
  kvtop replay load.kvrec --step 1284 --once  no screen: that moment as plain text; --json for programs

Without a screen and without --step, the end of the recording is printed. A file that was cut off is shown up to the
cut.
"""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from kvtop.commands.engine_flags import add_flag, say_screen_warnings, settings_from, typed
from kvtop.commands.frame_output import add_frame_flags, print_frame, wants_frame
from kvtop.commands.record_output import say_cut
from kvtop.commands.screen import require_screen
from kvtop.failure import WrongUsage
from kvtop.parsing import integer
from kvtop.settings import SETTINGS

if TYPE_CHECKING:
    from kvtop.sources.recording import Recording
    from kvtop.sources.timeline import Timeline
    from kvtop.view.finding import Finding

FASTEST = 1_000.0
FINDINGS_SECONDS = 20.0
"""How long before a moment is watched for what lasts."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recording", metavar="FILE", type=Path, help="a recording (kvtop live --record FILE)")
    parser.add_argument("--step", metavar="N", type=typed(integer(0)), help="the moment after this step")
    parser.add_argument("--speed", metavar="X", type=typed(_speed), default=1.0, help="times as fast (default: 1)")
    add_frame_flags(parser)
    screen = parser.add_argument_group("screen")
    for setting in SETTINGS:
        if setting.section == "screen":
            add_flag(screen, setting)


def run(args: argparse.Namespace) -> int:
    from kvtop.attach.record_format import MAGIC as SERVERS
    from kvtop.commands.replay_servers import replay_servers
    from kvtop.sources.frames import begins_with
    from kvtop.sources.recording import Recording

    settings = settings_from(args)
    if begins_with(args.recording, SERVERS):
        return replay_servers(args, settings)
    with Recording(args.recording) as recording:
        _check_step(recording, args.step)
        if recording.lost_bytes:
            say_cut(recording)
        if wants_frame(args):
            say_screen_warnings(settings)
            _print_moment(recording, args.step, as_json=args.json)
            return 0
        require_screen("kvtop replay")

        from kvtop.app.from_settings import app_settings
        from kvtop.app.run import run_app
        from kvtop.sources.replay import ReplaySource

        return run_app(ReplaySource(recording, speed=args.speed, start_step=args.step), app_settings(settings))


def _check_step(recording: Recording, step: int | None) -> None:
    first, last = recording.timeline.steps
    if step is not None and not first <= step <= last:
        raise WrongUsage(f"--step is {step}, {recording.path} has the steps {first:,} to {last:,}")


def _print_moment(recording: Recording, step: int | None, *, as_json: bool) -> None:
    timeline = recording.timeline
    last = timeline.steps[1]
    position = timeline.end if step is None else timeline.position_after_step(step)
    view = timeline.view_at(position)
    findings = _findings_at(timeline, position, view.wall_s)
    print_frame(view, f"recorded up to step {last:,}", findings, as_json=as_json)


def _findings_at(timeline: Timeline, position: int, wall_s: float) -> list[Finding]:
    """What stood there, found by watching the seconds before it."""
    from kvtop.view.findings import FindingsLog
    from kvtop.view.pool_view import PoolView

    log = FindingsLog()
    start = min(position, timeline.position_at_time(wall_s - FINDINGS_SECONDS))
    view = timeline.view_at(start)
    for batch in islice(timeline.batches(start), position - start):
        if batch.number <= view.number:  # another engine begins
            view = PoolView()
        view.apply(batch)
        log.observe(view)
    return log.renew(view)


def _speed(text: str) -> float:
    expected = f"a number above 0, up to {FASTEST:g}"
    try:
        speed = float(text)
    except ValueError:
        raise ValueError(expected) from None
    if not 0 < speed <= FASTEST:
        raise ValueError(expected)
    return speed
