"""Print the events of a recording, one a line.

  kvtop events load.kvrec                              what was decided, in words, step by step
  kvtop events load.kvrec --request req-17             one request's life
  kvtop events load.kvrec --type preempted,evicted     some kinds only
  kvtop events load.kvrec --json | jq .event.type      for programs: one JSON object a line

An object has "batch", "session" (it rises when a new engine began), "step", "wall_s", "monotonic_s" and "event", whose
"type" and fields are those of kvtop/engine/events.py; fields at their default are left out. In words the two events
that come with every step, advanced and step_timed, are listed only when asked for with --type.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import msgspec

from kvtop.commands.engine_flags import typed
from kvtop.commands.record_output import say_cut
from kvtop.engine.events import AnyEvent, Batch
from kvtop.parsing import integer
from kvtop.view.clean import clean_line
from kvtop.view.event_filter import EventFilter

if TYPE_CHECKING:
    from kvtop.sources.recording import Recording

EVENT_TYPES = sorted(event.__struct_config__.tag for event in get_args(AnyEvent))
VERBS = {
    "queue": "queued", "reject": "rejected", "fork": "forked", "wait": "waits", "admit": "admitted",
    "resume": "resumed", "preempt": "preempted", "end": "finished", "done": "completed", "warning": "warned",
    "short": "shortage", "take": "allocated", "share": "shared", "copy": "copied", "cache": "cached",
    "evict": "evicted", "free": "freed", "compute": "advanced", "time": "step_timed", "operator": "commanded",
    "change": "changed",
}  # fmt: skip
"""Words that lines begin with, where that is not the type."""
EVERY_STEP = frozenset(("advanced", "step_timed"))


class Line(msgspec.Struct):
    """One line of ``--json``."""

    batch: int
    session: int
    step: int
    wall_s: float
    monotonic_s: float
    event: AnyEvent


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recording", metavar="FILE", type=Path, help="a recording (kvtop live --record FILE)")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    parser.add_argument(
        "--type",
        metavar="TYPE,…",
        type=typed(_types),
        default=frozenset(),
        help="events of these types only, by name or by the word their line begins with",
    )
    parser.add_argument("--seq", metavar="N", type=typed(integer(1)), help="events that name this sequence only")
    parser.add_argument("--request", metavar="ID", help="events of this request's sequences only")
    parser.add_argument("--from-step", metavar="N", type=typed(integer(0)), help="from this step on")
    parser.add_argument("--to-step", metavar="N", type=typed(integer(0)), help="up to this step")


def run(args: argparse.Namespace) -> int:
    from kvtop.sources.recording import Recording

    wanted = EventFilter(args.type, args.seq, args.request, args.from_step, args.to_step)
    with Recording(args.recording) as recording:
        if recording.lost_bytes:
            say_cut(recording)
        lines = _as_json(recording, wanted) if args.json else _in_words(recording, wanted)
        found = False
        for line in lines:
            print(line)
            found = True
    if not found:
        where = clean_line(str(args.recording), 500)
        asked = " of what was asked for" if wanted != EventFilter() else ""
        print(f"kvtop: {where} holds no event{asked}", file=sys.stderr)
    return 0


def _as_json(recording: Recording, wanted: EventFilter) -> Iterator[str]:
    encode = msgspec.json.Encoder().encode
    for session, batch, events in _picked(recording, wanted):
        for event in events:
            line = encode(Line(batch.number, session, batch.step, batch.wall_s, batch.monotonic_s, event))
            if not line.isascii():  # text may hold signs that a terminal obeys
                line = json.dumps(json.loads(line)).encode()
            yield line.decode()


def _in_words(recording: Recording, wanted: EventFilter) -> Iterator[str]:
    from kvtop.view.describe import describe
    from kvtop.view.pool_view import PoolView

    timeline = recording.timeline
    view, before = timeline.view_at(timeline.first), timeline.session_at(timeline.first)
    for session, batch, events in _picked(recording, wanted):
        if session != before:
            view, before = PoolView(), session
            yield "      –  another engine begins"
        view.apply(batch)
        clock = time.strftime("%H:%M:%S", time.localtime(batch.wall_s)) + f"{batch.wall_s % 1:.3f}"[1:]
        for event in events:
            if wanted.types or event.__struct_config__.tag not in EVERY_STEP:
                yield f"{batch.step:>7,}  {clock}  {describe(event, view)}"


def _picked(recording: Recording, wanted: EventFilter) -> Iterator[tuple[int, Batch, list[AnyEvent]]]:
    """Every batch with its session and the events that are wanted."""
    timeline = recording.timeline
    begun = timeline.view_at(timeline.first).sequences.values()
    known = {sequence.seq: sequence.request_id for sequence in begun}
    picked = wanted.pick(timeline.batches(timeline.first), known)
    for position, (batch, events) in enumerate(picked, start=timeline.first):
        yield timeline.session_at(position), batch, events


def _types(text: str) -> frozenset[str]:
    chosen = frozenset(VERBS.get(name, name) for name in text.split(","))
    for name in sorted(chosen - set(EVENT_TYPES)):
        near = difflib.get_close_matches(name, EVENT_TYPES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(EVENT_TYPES)}"
        raise ValueError(f"types of events: {name!r} is none, {hint}")
    return chosen
