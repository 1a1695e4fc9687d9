"""Open a dashboard in a browser: the same screen, keys and mouse, at an address on this machine.

  kvtop web                                  kvtop live, in a browser
  kvtop web live --sim                       with the flags of that command
  kvtop web --port 9000 replay load.kvrec    another dashboard; flags of the server stand before it
  kvtop web learn --sim                      ... and so can learn, attach, and sim --live
  kvtop web -- --num-blocks 64               the flags of kvtop live alone

It prints the page's address and serves until Ctrl+C. Each page has a dashboard of its own with an engine of its own,
which ends when the page is closed; --pages says how many may be open at a time. Nothing is fetched from elsewhere.

The address works on this machine alone. From another one, tunnel to it (ssh -L 8010:127.0.0.1:8010 ...). It holds a
word that is drawn at each start, because whoever knows it can send requests and use files as you can; with a --host
that others reach, mind that it travels unencrypted.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import sys

from kvtop.commands.engine_flags import typed
from kvtop.extra import require
from kvtop.failure import WrongUsage
from kvtop.parsing import integer

DASHBOARDS = ("live", "learn", "replay", "attach", "sim")
"""Commands that have one."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", metavar="NAME", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument(
        "--port", metavar="N", type=typed(integer(0)), default=8010, help="port (default: 8010); 0 takes any free one"
    )
    parser.add_argument(
        "--pages", metavar="N", type=typed(integer(1)), default=1, help="pages open at a time, at most (default: 1)"
    )
    parser.add_argument(
        "dashboard", metavar="COMMAND ...", nargs=argparse.REMAINDER, help=f"one of {', '.join(DASHBOARDS)}, its flags"
    )


def run(args: argparse.Namespace) -> int:
    words = _dashboard(args.dashboard)
    require("kvtop web", "textual_serve", "aiohttp")
    from kvtop.web.server import PageServer

    command = (sys.executable, "-m", "kvtop", *(["--debug"] if args.debug else []), *words)
    print(f"kvtop {' '.join(words)}, in a browser at this address; Ctrl+C ends it", file=sys.stderr)
    if not _is_loopback(args.host):
        print(f"warning: {args.host} can be reached from other machines, unencrypted", file=sys.stderr)

    async def serve() -> int:
        server = PageServer(command, args.host, args.port, args.pages)
        return await server.serve_until_told(lambda address: print(address, flush=True))

    return asyncio.run(serve())


def _dashboard(rest: list[str]) -> list[str]:
    """The dashboard's command line, checked. Raises WrongUsage, or SystemExit for what the command itself refuses."""
    from kvtop.cli import parser_of

    words = rest[1:] if rest[:1] == ["--"] else rest
    if not words or words[0].startswith("-"):
        words = ["live", *words]
    if words[0] not in DASHBOARDS:
        raise WrongUsage(f"{words[0]!r} has no dashboard; expected one of {', '.join(DASHBOARDS)}")
    flags = parser_of(words[0]).parse_args(words[1:])
    prints = next((name for name in ("once", "json", "list", "csv") if getattr(flags, name, False)), "")
    if prints or (words[0] == "sim" and not flags.live):
        what = f"with --{prints} it prints" if prints else "sim draws with --live only"
        raise WrongUsage(f"{what}: no browser is needed; leave web out")
    return words


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
