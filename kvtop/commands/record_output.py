"""Recordings on the command line: the flags that make one, and what is said of one on stderr."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kvtop.commands.engine_flags import typed
from kvtop.failure import WrongUsage
from kvtop.parsing import size as parse_size
from kvtop.view.clean import clean_line
from kvtop.view.words import size

if TYPE_CHECKING:
    from kvtop.sources.file_sink import FileSink
    from kvtop.sources.recorder import Recorder
    from kvtop.sources.recording import Recording

LEAST_LIMIT_BYTES = 1 << 20


def add_record_flags(parser: argparse.ArgumentParser, what: str = "everything") -> None:
    """``what`` goes into the file."""
    group = parser.add_argument_group("recording")
    group.add_argument("--record", metavar="FILE", type=Path, help=f"record {what} to a new file (.kvrec)")
    group.add_argument(
        "--record-limit",
        metavar="SIZE",
        type=typed(_limit),
        help="stop recording before the file grows over this, and nothing else",
    )


def _limit(text: str) -> int:
    limit = parse_size(text)
    if limit < LEAST_LIMIT_BYTES:
        raise ValueError(f"{size(LEAST_LIMIT_BYTES)} or more")
    return limit


@contextmanager
def recording_of(args: argparse.Namespace, recorder: Recorder) -> Iterator[FileSink | None]:
    """Have ``recorder`` write the file that was asked for, if one was; close it at the end, however that comes.

    Raises:
        RecordingError: the file cannot be made.
        WrongUsage: a limit was given and no file.
    """
    from kvtop.sources.file_sink import FileSink

    if args.record_limit is not None and args.record is None:
        raise WrongUsage("--record-limit bounds a recording; say with --record FILE where it goes")
    sink = FileSink(args.record, args.record_limit) if args.record is not None else None
    if sink is not None:
        recorder.attach(sink)
    try:
        yield sink
    finally:
        recorder.close()
        if sink is not None:
            _say_outcome(sink, recorder.failure)


def _say_outcome(sink: FileSink, failure: str) -> None:
    upto = f"up to step {sink.last_step:,}" if sink.last_step is not None else "nothing"
    if failure:
        print(f"kvtop: {clean_line(failure, 500)}", file=sys.stderr)
    print(f"recorded {upto} in {clean_line(str(sink.path), 500)}, {size(sink.size_bytes)}", file=sys.stderr)


def say_recorded(sink: FileSink, failure: str) -> None:
    """On stderr: what became of a recording of watched servers."""
    if failure:
        print(f"kvtop: {clean_line(failure, 500)}", file=sys.stderr)
    print(f"recorded in {clean_line(str(sink.path), 500)}, {size(sink.size_bytes)}", file=sys.stderr)


def say_cut(recording: Recording) -> None:
    """On stderr: the file does not end where it was to end."""
    lost, last = recording.lost_bytes, recording.timeline.steps[1]
    where = clean_line(str(recording.path), 500)
    words = f"the last {lost:,} bytes are of no use, everything up to step {last:,} is there"
    print(f"kvtop: {where} is cut off or damaged at its end: {words}", file=sys.stderr)
