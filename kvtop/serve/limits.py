"""What a server takes at once, and what it then answers: 413 for a body too large, 429 for too many calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.requests import Request

from kvtop.serve.faults import ApiFault


@dataclass(frozen=True, slots=True)
class Limits:
    body_bytes: int = 4 << 20
    open_calls: int = 1024
    """Calls that are being answered."""
    waiting: int = 512
    """Sequences that wait in the engine's queue: beyond, no call is taken."""


async def read_limited(request: Request, most_bytes: int) -> bytes:
    """The body of a call.

    Raises:
        ApiFault: it is larger than ``most_bytes``.
    """
    declared = request.headers.get("content-length", "0")
    parts: list[bytes] = []
    size = int(declared) if declared.isdecimal() else 0
    if size <= most_bytes:
        size = 0
        async for part in request.stream():
            parts.append(part)
            size += len(part)
            if size > most_bytes:
                break
    if size > most_bytes:
        raise ApiFault(413, f"the body has over {most_bytes:,} bytes, at most so many are taken (--max-body)")
    return b"".join(parts)


class Gate:
    """Counts the calls that are being answered."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.open = 0
        self.closed = False
        """The server is about to end: nothing new is taken."""

    @contextmanager
    def pass_through(self, waiting: int) -> Iterator[None]:
        """One call, from its first byte to its last. ``waiting``: sequences in the engine's queue.

        Raises:
            ApiFault: there is no room for it.
        """
        if self.closed:
            raise ApiFault(503, "the server is ending and takes no new calls", code="ending")
        if self.open >= self._limits.open_calls:
            raise ApiFault(429, f"{self.open} calls are being answered, at most so many at once (--max-open)")
        if waiting >= self._limits.waiting:
            raise ApiFault(429, f"{waiting} sequences wait already, at most {self._limits.waiting} may (--max-waiting)")
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1
