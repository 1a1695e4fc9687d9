"""``kvtop live --listen``: clients and watchers of the engine beside the dashboard that shows it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kvtop.commands.serve_flags import add_serve_flags, front_settings
from kvtop.engine.control import AnyCommand, Reply, Status
from kvtop.engine.events import Batch
from kvtop.extra import require_serve
from kvtop.failure import WrongUsage

if TYPE_CHECKING:
    from kvtop.serve.front import Front

HearBatch = Callable[[Batch], None]


class Hearing(NamedTuple):
    """Who is told of what an engine says, beside whoever polls its source."""

    batch: HearBatch | None = None
    word: Callable[[Reply | Status], None] | None = None


def add_listen_flags(parser: argparse.ArgumentParser) -> None:
    add_serve_flags(parser).add_argument(
        "--listen",
        metavar="[HOST:]PORT",
        nargs="?",
        const="127.0.0.1:8000",
        help="answer clients as kvtop serve does, beside the dashboard (without a value: 127.0.0.1:8000)",
    )


def front_beside_screen(args: argparse.Namespace, send: Callable[[AnyCommand], None]) -> Front:
    """The server, started; on the terminal nothing but the dashboard writes.

    Raises:
        WrongUsage: --listen is no address.
        Failure: it cannot be listened at.
    """
    require_serve()
    import logging

    from kvtop.serve.address import parse_address
    from kvtop.serve.front import Front
    from kvtop.serve.listener import log_to

    try:
        address = parse_address(args.listen)
    except ValueError as error:
        raise WrongUsage(f"--listen is {args.listen!r}, expected {error}") from None
    log_to(logging.NullHandler())
    front = Front(front_settings(args, address), send)
    front.start()
    return front


def both(first: HearBatch, second: HearBatch) -> HearBatch:
    """Batches for two."""

    def hear(batch: Batch) -> None:
        first(batch)
        second(batch)

    return hear
