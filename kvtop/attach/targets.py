"""Which servers to watch: addresses from the command line and from files of targets, one a line.

http://gpu-1:8000                   a server; /metrics is understood
gpu-2:8000                          http is understood
prod = https://llm.example/a        with a name of its own
gpu-3:8000 tables=tcp://gpu-3:5590  and where its exporter speaks, where that is not the usual port
gpu-4:8000 events=tcp://gpu-4:5557 replay=tcp://gpu-4:5558 topic=kv ranks=2      a server that does not say so itself
# a comment
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from kvtop.failure import Failure


class TargetError(Failure):
    """An address cannot be watched, or a file of targets cannot be read."""


@dataclass(frozen=True, slots=True)
class Target:
    """One server. ``base`` has no trailing slash; ``metrics`` is the page to scrape."""

    name: str
    base: str
    metrics: str
    events: str = ""
    """Where rank 0 publishes KV events, as somebody said; empty: the server is asked. Rank n has the n-th port after
    it, as with the addresses below."""
    replay: str = ""
    topic: str = ""
    tables: str = ""
    """Where the exporter of rank 0 speaks; empty: it is looked for."""
    ranks: int = 1
    """How many ranks the addresses stand for."""

    def of_rank(self, address: str, rank: int) -> str:
        """One of the addresses above, for another rank."""
        there, _, port = address.rpartition(":")
        return f"{there}:{int(port) + rank}" if port.isdecimal() else address

    @property
    def shown(self) -> str:
        """``base`` without the user and password it may hold, for screens and files."""
        parts = urlsplit(self.base)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

    @property
    def host(self) -> str:
        """Host name or address, for sockets of the same server; IPv6 in brackets."""
        host = urlsplit(self.base).hostname or ""
        return f"[{host}]" if ":" in host else host


_OPTIONS = ("events", "replay", "topic", "tables", "ranks")


def parse_target(text: str) -> Target:
    """``[NAME =] [http[s]://]HOST[:PORT][/PATH] [OPTION=VALUE ...]`` as a target.

    Raises:
        TargetError: it is none; the message says what was expected.
    """
    words = text.split()
    options: dict[str, str] = {}
    while len(words) > 1 and words[-1].partition("=")[0] in _OPTIONS and words[-2] != "=":
        option, _, value = words.pop().partition("=")
        options[option] = value
    return with_options(_parse_address(" ".join(words)), options)


def with_options(target: Target, options: Mapping[str, str]) -> Target:
    """``target`` with what somebody said of it.

    Raises:
        TargetError: an address is none, or the number of ranks.
    """
    ranks = options.get("ranks", "1")
    if not ranks.isdecimal() or not 1 <= int(ranks) <= 1024:
        raise TargetError(f"{target.name}: ranks is {ranks!r}, expected a number from 1 to 1024")
    for name in ("events", "replay", "tables"):
        address = options.get(name, "")
        is_tcp = address.startswith("tcp://") and address.rpartition(":")[2].isdecimal()
        if address and not is_tcp and not address.startswith("ipc:///"):
            raise TargetError(f"{target.name}: {name} is {address!r}, expected an address such as tcp://gpu-1:5557")
    addresses = {name: value for name, value in options.items() if name != "ranks"}
    return replace(target, ranks=int(ranks), **addresses)


def _parse_address(text: str) -> Target:
    name, _, address = text.rpartition("=") if _has_name(text) else ("", "", text)
    name, address = name.strip(), address.strip()
    full = address if "://" in address else f"http://{address}"
    try:
        parts = urlsplit(full)
        port_fits = parts.port is None or parts.port > 0
    except ValueError:
        port_fits = False
        parts = urlsplit("")
    if not (address and port_fits and parts.scheme in ("http", "https") and parts.hostname):
        shown = re.sub(r"(^|//|=)[^/=]*@", r"\1", text.strip())  # an error is read by others too: no password in it
        raise TargetError(f"{shown!r}: expected the address of a server, such as http://localhost:8000")
    path = parts.path.rstrip("/")
    base = f"{parts.scheme}://{parts.netloc}{path.removesuffix('/metrics')}"
    target = Target("", base, f"{base}/metrics")
    return replace(target, name=name or target.shown.partition("://")[2])


def _has_name(text: str) -> bool:
    """A sign = before the address, not one in a query."""
    head, sign, _ = text.partition("=")
    return bool(sign) and "/" not in head and "?" not in head


def read_targets(path: Path) -> list[Target]:
    """The targets of a file.

    Raises:
        TargetError: it cannot be read, a line is not a target, or it names none; the message names file and line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TargetError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    targets: list[Target] = []
    for number, line in enumerate(lines, start=1):
        text = line.partition("#")[0].strip()
        if text:
            try:
                targets.append(parse_target(text))
            except TargetError as error:
                raise TargetError(f"{path}, line {number}: {error}") from None
    if not targets:
        raise TargetError(f"{path}: names no server")
    return targets


def distinct(targets: Iterable[Target]) -> list[Target]:
    """Each server once, in the order given; names that would be the same get a number."""
    by_page = {target.metrics: target for target in reversed(list(targets))}
    seen: dict[str, int] = {}
    result = []
    for target in reversed(by_page.values()):
        seen[target.name] = seen.get(target.name, 0) + 1
        again = seen[target.name]
        result.append(target if again == 1 else replace(target, name=f"{target.name} ({again})"))
    return result
