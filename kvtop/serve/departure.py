"""A client that goes away in the middle of its call: whatever is done for it ends there, and its blocks come back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

T = TypeVar("T")


class ClientGone(Exception):
    """Nobody is there to be answered."""


class Departure:
    """Listens for the client's going from here on; its body must have been read. ``async with`` ends the listening."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._gone = asyncio.ensure_future(self._listen())

    async def __aenter__(self) -> Departure:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._gone.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._gone

    async def during(self, work: Coroutine[Any, Any, T]) -> T:
        """What ``work`` returns.

        Raises:
            ClientGone: the client went first; ``work`` was cancelled.
        """
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, self._gone}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ClientGone
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task

    async def _listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
