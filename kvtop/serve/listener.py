"""The HTTP server in a thread and on an event loop of its own, so that neither a screen nor signals meet it.

It accepts from the moment it is started until it is drained: then no new connection is taken, and calls that are open
may end. Whoever drains it tells calls in time that they have to; what heeds no word is cut off some seconds later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
import threading
from collections.abc import Callable

import uvicorn
from starlette.applications import Starlette

SPARE_SECONDS = 5
"""From the end of a drain until calls are cut off in mid-air. Before that they are told, and end by themselves."""


class Listener:
    """``on_loop`` is called on the loop before the first connection is taken."""

    def __init__(self, app: Starlette, bound: socket.socket, on_loop: Callable[[], None]) -> None:
        self._bound = bound
        self._on_loop = on_loop
        self._config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", ws="none", server_header=False, proxy_headers=False
        )
        self._server = uvicorn.Server(self._config)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def start(self) -> None:
        """Returns once connections are taken."""
        self._thread.start()
        self._ready.wait()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def drain(self, seconds: float) -> None:
        """Take no new connection; end when all calls have, which may go on for ``seconds``. Returns at once."""
        self._config.timeout_graceful_shutdown = math.ceil(seconds) + SPARE_SECONDS
        self._server.should_exit = True

    def wait(self, timeout_s: float) -> bool:
        """Whether it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._on_loop()
        started = asyncio.ensure_future(self._tell_ready())
        try:
            await self._server.serve([self._bound])
        finally:
            self._ready.set()
            started.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await started

    async def _tell_ready(self) -> None:
        while not self._server.started:
            await asyncio.sleep(0.005)
        self._ready.set()


def log_to(handler: logging.Handler) -> None:
    """Where the HTTP server's warnings and errors go; nowhere else."""
    for name in ("uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(logging.WARNING)
        logger.propagate = False
