"""Which servers to watch: addresses from the command line and from files of targets, one a line.

http://gpu-1:8000                   a server; /metrics is understood
gpu-2:8000                          http is understood
prod = https://llm.example/a        with a name of its own
# a comment
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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

    @property
    def host(self) -> str:
        """Host name or address, for sockets of the same server; IPv6 in brackets."""
        host = urlsplit(self.base).hostname or ""
        return f"[{host}]" if ":" in host else host


def parse_target(text: str) -> Target:
    """``[NAME =] [http[s]://]HOST[:PORT][/PATH]`` as a target.

    Raises:
        TargetError: it is none; the message says what was expected.
    """
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
        raise TargetError(f"{text.strip()!r}: expected the address of a server, such as http://localhost:8000")
    path = parts.path.rstrip("/")
    base = f"{parts.scheme}://{parts.netloc}{path.removesuffix('/metrics')}"
    return Target(name or base.partition("://")[2], base, f"{base}/metrics")


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
        result.append(target if again == 1 else Target(f"{target.name} ({again})", target.base, target.metrics))
    return result
