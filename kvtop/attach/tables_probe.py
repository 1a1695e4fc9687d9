"""Finds the exporters of true tables: where a server says they are, where somebody said, or at the usual port.

A server of ours names them on a page (``/kvtop_sources``). vLLM's cannot, so the usual port of its host is tried: what
answers there as ZMQ does is taken for an exporter until it has said a word. Nobody subscribes here: a subscriber costs
the server work. One background thread asks every server, again and again until it has found one.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import httpx2

from kvtop.attach.kv_sources import reachable
from kvtop.attach.targets import Target
from kvtop.exporter.wire import DEFAULT_PORT

PAGE = "/kvtop_sources"
AGAIN_SECONDS = 5.0
TIMEOUT_SECONDS = 1.5
MOST_RANKS = 64
CLOSE_SECONDS = 0.1
_GREETING = b"\xff"
"""The first byte of whatever speaks ZMQ."""


class TablesProbe:
    """``endpoints`` says where to subscribe, by the base address of a target; a list has an entry a rank."""

    def __init__(self, targets: Sequence[Target]) -> None:
        self.endpoints: dict[str, list[str]] = {
            target.base: [target.of_rank(target.tables, rank) for rank in range(target.ranks)]
            for target in targets
            if target.tables
        }
        hosts = Counter(target.host for target in targets)
        self.has_looked = False
        """Every server was asked, or tried, once."""
        self._targets = [target for target in targets if not target.tables]
        self._alone = {target.base for target in targets if hosts[target.host] == 1}
        """Servers of a host of their own: an exporter at the usual port can be nobody else's."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._look()), name="tables-probe", daemon=True)

    def start(self) -> None:
        if self._targets:
            self._thread.start()
        else:
            self.has_looked = True

    def reject(self, target: Target) -> None:
        """What was found there was not that server's."""
        self.endpoints.pop(target.base, None)

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)

    async def _look(self) -> None:
        missing = list(self._targets)
        async with httpx2.AsyncClient(timeout=TIMEOUT_SECONDS, trust_env=False) as client:
            while missing and not self._closing.is_set():
                looking = asyncio.gather(*(self._find(client, target) for target in missing))
                while not looking.done() and not self._closing.is_set():
                    await asyncio.wait([looking], timeout=0.05)
                if not looking.done():
                    looking.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await looking
                    return
                self.has_looked = True
                missing = [target for target in missing if target.base not in self.endpoints]
                for _ in range(round(AGAIN_SECONDS / 0.1)):
                    if self._closing.is_set():
                        return
                    await asyncio.sleep(0.1)

    async def _find(self, client: httpx2.AsyncClient, target: Target) -> None:
        found = await _told(client, target)
        if not found and target.base in self._alone:
            while len(found) < MOST_RANKS and await speaks_zmq(target.host, DEFAULT_PORT + len(found)):
                found.append(f"tcp://{target.host}:{DEFAULT_PORT + len(found)}")
        if found:
            self.endpoints[target.base] = found


async def _told(client: httpx2.AsyncClient, target: Target) -> list[str]:
    """What a server says of its own exporters: ``{"0": {"endpoint": "tcp://*:5580"}, ...}``, as vLLM does of events."""
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            answer = (await client.get(target.base + PAGE)).raise_for_status().json()
        told = sorted((int(rank), str(place["endpoint"])) for rank, place in answer.items())
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, TypeError, KeyError, AttributeError):
        return []
    endpoints = [reachable(endpoint, target.host) for _, endpoint in told if "://" in endpoint]
    for endpoint in endpoints:
        if not await is_reachable(endpoint, target.host):
            return []
    return endpoints


async def is_reachable(endpoint: str, host: str) -> bool:
    """Whether an endpoint that ``host`` named can be ours to ask: loopback is, where the host is this machine."""
    scheme, _, rest = endpoint.partition("://")
    there = rest.rpartition(":")[0]
    if scheme != "tcp" or not _is_loopback(there) or _is_loopback(host):
        return True
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(host.strip("[]"), 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    return any(_is_of_this_machine(family, address) for family, _, _, _, address in found)


def _is_loopback(host: str) -> bool:
    return host == "localhost" or host == "[::1]" or host.startswith("127.")


def _is_of_this_machine(family: int, address: tuple[Any, ...]) -> bool:
    """Only an address of one's own can be bound."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as own:
            own.bind(address)
    except OSError:
        return False
    return True


async def speaks_zmq(host: str, port: int) -> bool:
    """Whether somebody answers at a port, and as ZMQ does."""
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            reader, writer = await asyncio.open_connection(host.strip("[]"), port)
            try:
                return await reader.readexactly(1) == _GREETING
            finally:
                writer.close()
    except (OSError, asyncio.IncompleteReadError):
        return False
