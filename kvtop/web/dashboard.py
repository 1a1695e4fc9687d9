"""One dashboard for one page: the program in a process of its own, its screen going to the page, the page's keys to it.

A subclass of textual-serve's AppService, whose packets it speaks. What differs: no shell starts it, its last words are
shown in the page, and it is gone for certain when the page is.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Sequence

from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

from kvtop.view.clean import clean_text

LEAVE_WITHIN_S = 4.0
"""More than the program itself takes at most (see kvtop.app.run)."""
LAST_WORDS = 20_000
"""Bytes of them that are kept."""


class Dashboard(AppService):
    """``write`` takes what is to be shown in the page, ``close`` tells the page that it was all."""

    def __init__(
        self,
        command: Sequence[str],
        write: Callable[[bytes], Awaitable[None]],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(
            "",
            write_bytes=write,
            write_str=self._ignore,
            close=close,
            download_manager=DownloadManager(),
        )
        self._command = tuple(command)

    def _build_environment(self, width: int = 80, height: int = 24) -> dict[str, str]:
        ours = {"TEXTUAL_DRIVER": "kvtop.app.page_driver:PageDriver", "TERM": "xterm-256color"}
        return super()._build_environment(width, height) | ours

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=self._build_environment(width, height),
            start_new_session=True,  # a Ctrl+C at the server is the server's; and so all of it can be killed at once
        )
        self._stdin = self._process.stdin
        return self._process

    async def run(self) -> None:
        """Pass on what it draws until it ends; then say why, if it did not end well, and close the page."""
        process = self._process
        assert process is not None and process.stdout is not None and process.stderr is not None
        words = asyncio.create_task(_end_of(process.stderr))
        with contextlib.suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            await process.stdout.readuntil(b"__GANGLION__\n")
            while True:
                kind = await process.stdout.readexactly(1)
                payload = await process.stdout.readexactly(int.from_bytes(await process.stdout.readexactly(4), "big"))
                if kind == b"D":
                    await self._show(payload)
        status = await process.wait()
        if status:
            said = clean_text((await words).decode("utf-8", "replace")).strip() or f"it ended with status {status}"
            await self._show(b"\x1bc" + said.replace("\n", "\r\n").encode() + b"\r\n")
        with contextlib.suppress(ConnectionError):
            await self.remote_close()

    async def stop(self) -> None:
        """End it, by force where it takes too long; nothing of it is left running."""
        task, self._task = self._task, None
        process = self._process
        if task is None or process is None:
            return
        await self.send_meta({"type": "quit"})
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(task, LEAVE_WITHIN_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its engine too, wherever that may be stuck
        await process.wait()

    async def _show(self, data: bytes) -> None:
        """A page that has gone is no reason to stop reading: the program would wait for its reader and never end."""
        with contextlib.suppress(ConnectionError):
            await self.remote_write_bytes(data)

    async def _ignore(self, data: str) -> None:
        """Files and addresses that the page is asked to open: a dashboard has none."""


async def _end_of(stream: asyncio.StreamReader) -> bytes:
    kept = b""
    while data := await stream.read(4096):
        kept = (kept + data)[-LAST_WORDS:]
    return kept
