"""Where a server listens: ``HOST:PORT`` as people write it, and the socket bound there before anything starts."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass

from kvtop.failure import Failure

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8000
_EXPECTED = "an address such as 127.0.0.1:8000, or a port"


@dataclass(frozen=True, slots=True)
class Address:
    """``port`` 0: any free one."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT

    @property
    def url(self) -> str:
        """For a client on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host and '[' not in host else host}:{self.port}"

    @property
    def is_wildcard(self) -> bool:
        return self.host in ("0.0.0.0", "::")

    @property
    def is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse_address(text: str) -> Address:
    """``HOST:PORT``, ``HOST``, ``PORT`` or ``:PORT``; what is missing is 127.0.0.1 and 8000.

    Raises:
        ValueError: it is none of these; the message says what was expected.
    """
    if text.isdecimal():
        host, port = "", text
    elif text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif text.count(":") > 1:
        host, port = text, ""
    else:
        host, _, port = text.partition(":")
    if port and not (port.isdecimal() and int(port) < 65_536):
        raise ValueError(_EXPECTED)
    return Address(host or DEFAULT_HOST, int(port) if port else DEFAULT_PORT)


def bind(address: Address) -> tuple[socket.socket, Address]:
    """A socket that is bound, and the address with the port it got.

    Raises:
        Failure: it cannot be bound; the message says why.
    """
    try:
        family, _, _, _, where = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise Failure(f"{address.host}: cannot be listened at: {error.strerror or error}") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(where)
    except OSError as error:
        bound.close()
        raise Failure(f"{address.host}:{address.port}: cannot be listened at: {error.strerror or error}") from None
    return bound, Address(address.host, bound.getsockname()[1])
