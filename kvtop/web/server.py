"""The server of ``kvtop web``: one page at an address that nobody can guess, and a dashboard for each who opens it.

Whoever reaches a dashboard can send requests, and read and write files as its owner does. So every address begins with
a word drawn at the start: neither another user of the machine nor another page in the same browser knows it. What
textual-serve brings is its websocket protocol, its terminal and its font; addresses, page and processes are ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path

from aiohttp import web
from textual_serve.server import Server, to_int

from kvtop.failure import Failure
from kvtop.web.dashboard import Dashboard

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy of the page. xterm.js lays out its rows by styles that it writes itself."""
OURS = {"": "page.html", "page.css": "page.css", "page.js": "page.js"}
"""Path → file of this package."""
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}


class PageServer(Server):
    """Serves ``command``, at most ``pages`` at a time. ``port`` 0: any that is free."""

    def __init__(self, command: Sequence[str], host: str, port: int, pages: int) -> None:
        super().__init__("", host=host, port=port)
        self._command = tuple(command)
        self._word = secrets.token_urlsafe(12)
        self._turns = asyncio.Semaphore(pages)
        self._open: set[web.WebSocketResponse] = set()

    async def serve_until_told(self, say: Callable[[str], None]) -> int:
        """Serve until SIGINT or SIGTERM, and return 128 + its number. ``say`` gets the page's address.

        Raises:
            Failure: the address cannot be listened on.
        """
        runner = web.AppRunner(await self._make_app(), access_log=None, shutdown_timeout=10)
        await runner.setup()
        try:
            await web.TCPSite(runner, self.host, self.port).start()
        except OSError as error:
            await runner.cleanup()
            why = error.strerror or str(error)
            raise Failure(f"{self.host}:{self.port} cannot be listened on: {why}; --port 0 takes a free one") from None
        told: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, _tell, told, number)
        port = runner.addresses[0][1]
        host = f"[{self.host}]" if ":" in self.host else self.host
        say(f"http://{host}:{port}/{self._word}/")
        try:
            return 128 + await told
        finally:
            await runner.cleanup()

    async def _make_app(self) -> web.Application:
        app = web.Application()
        for path in OURS:
            app.router.add_get(f"/{self._word}/{path}", self._handle_ours)
        app.router.add_get(f"/{self._word}/ws", self.handle_websocket)
        app.router.add_static(f"/{self._word}/static", Path(self.statics_path))
        app.on_shutdown.append(self.on_shutdown)
        return app

    async def _handle_ours(self, request: web.Request) -> web.Response:
        name = OURS[request.path.rpartition("/")[2]]
        text = resources.files("kvtop.web").joinpath(name).read_text("utf-8")
        headers = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
        return web.Response(text=text, content_type=TYPES[name.rpartition(".")[2]], headers=headers)

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """A dashboard for this page, when it is its turn; it ends with the page."""
        websocket = web.WebSocketResponse(heartbeat=15)
        await websocket.prepare(request)
        self._open.add(websocket)
        try:
            if self._turns.locked():
                await websocket.send_bytes(
                    b"\x1b[2J\x1b[Hkvtop is open in another page; it starts here when that is closed."
                )
            async with self._turns:
                if not websocket.closed:
                    await self._show_dashboard(websocket, request)
        except ConnectionError:
            pass
        finally:
            self._open.discard(websocket)
        return websocket

    async def _show_dashboard(self, websocket: web.WebSocketResponse, request: web.Request) -> None:
        async def close() -> None:
            await websocket.close()

        dashboard = Dashboard(self._command, websocket.send_bytes, close)
        await dashboard.start(to_int(request.query.get("width", ""), 80), to_int(request.query.get("height", ""), 24))
        try:
            await self._process_messages(websocket, dashboard)
        except (ValueError, LookupError, TypeError, AssertionError):  # not the terminal's messages: the page has ended
            await websocket.close()
        finally:
            await dashboard.stop()

    async def on_shutdown(self, app: web.Application) -> None:
        """Close every page; its dashboard ends with it."""
        for websocket in list(self._open):
            with contextlib.suppress(ConnectionError):
                await websocket.close()


def _tell(told: asyncio.Future[int], number: int) -> None:
    if not told.done():
        told.set_result(number)
