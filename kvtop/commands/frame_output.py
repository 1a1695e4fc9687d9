"""One frame on stdout, as text or as JSON: what ``live`` and ``replay`` do where there is no screen."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvtop.view.finding import Finding
    from kvtop.view.pool_view import PoolView


def add_frame_flags(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """``--once`` and ``--json``; the group, for what belongs to them."""
    group = parser.add_argument_group("without a screen")
    group.add_argument("--once", action="store_true", help="print one frame as plain text and end")
    group.add_argument("--json", action="store_true", help="print one frame as JSON and end")
    return group


def wants_frame(args: argparse.Namespace) -> bool:
    return bool(args.once or args.json)


def print_frame(view: PoolView, state: str, findings: Sequence[Finding], *, as_json: bool) -> None:
    """The frame as of the view's own time: rates are those of the last seconds in which something happened."""
    from kvtop.view.json_frame import frame_as_json
    from kvtop.view.plain_frame import plain_frame

    if as_json:
        print(json.dumps(frame_as_json(view, view.wall_s, state, findings)))
    else:
        print(plain_frame(view, view.wall_s, state, findings))


def state_of_engine(view: PoolView) -> str:
    """What an engine that was just watched is doing."""
    return "paused" if view.paused else "running" if view.sequences else "idle"
