"""The flags of an engine that clients can reach, shared by ``kvtop serve`` and ``kvtop live --listen``."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from kvtop.commands.engine_flags import typed
from kvtop.extra import require_serve
from kvtop.failure import WrongUsage
from kvtop.parsing import integer, size, some_text

if TYPE_CHECKING:
    from kvtop.serve.address import Address
    from kvtop.serve.front import FrontSettings

KEY_VARIABLE = "KVTOP_API_KEY"


def add_serve_flags(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """The flags of both commands; returns their group."""
    group = parser.add_argument_group("clients and watchers")
    group.add_argument(
        "--api-key",
        metavar="KEY",
        type=typed(some_text),
        help=f"clients must send it; better given as {KEY_VARIABLE}, which others on this machine cannot read",
    )
    group.add_argument(
        "--model-name",
        metavar="NAME",
        type=typed(some_text),
        help="what clients call the model (default: its own name)",
    )
    group.add_argument(
        "--watch-host",
        metavar="HOST",
        default="127.0.0.1",
        help="where KV events and true block tables are published, without a password (default: 127.0.0.1)",
    )
    group.add_argument(
        "--watch-port",
        metavar="N",
        type=typed(integer(1, 65_533)),
        default=0,
        help="port of the KV events; the next two are their replay and the tables (default: any free ones)",
    )
    group.add_argument(
        "--max-body", metavar="SIZE", type=typed(size), default=4 << 20, help="largest body of a call (default: 4MiB)"
    )
    group.add_argument(
        "--max-open", metavar="N", type=typed(integer(1)), default=1024, help="calls answered at once (default: 1024)"
    )
    group.add_argument(
        "--max-waiting",
        metavar="N",
        type=typed(integer(1)),
        default=512,
        help="sequences in the engine's queue, beyond which calls get 429 (default: 512)",
    )
    return group


def front_settings(args: argparse.Namespace, address: Address) -> FrontSettings:
    """What the flags say.

    Raises:
        WrongUsage: the key cannot be sent in a header.
        Failure: what serving needs is not installed.
    """
    require_serve()
    from kvtop.serve.front import FrontSettings
    from kvtop.serve.limits import Limits

    key = args.api_key or os.environ.get(KEY_VARIABLE, "")
    if not all("!" <= sign <= "~" for sign in key):
        raise WrongUsage("the API key holds a sign that no header can carry, expected ASCII letters, digits and signs")
    return FrontSettings(
        address=address,
        watch_host=args.watch_host,
        watch_port=args.watch_port,
        api_key=key,
        model=args.model_name,
        limits=Limits(args.max_body, args.max_open, args.max_waiting),
    )


def exposure(settings: FrontSettings) -> list[str]:
    """What others on the network can do that the operator may not have meant, a sentence each."""
    from kvtop.serve.address import Address

    found = []
    if not settings.address.is_loopback and not settings.api_key:
        found.append(f"whoever reaches {settings.address.host} can use the model; set {KEY_VARIABLE} to ask for a key")
    if not Address(settings.watch_host).is_loopback:
        found.append(f"whoever reaches {settings.watch_host} can read requests and answers from the tables told there")
    return found
