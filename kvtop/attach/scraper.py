"""Asks every target for its page of metrics, each at its own pace, in one background thread.

The caller polls what came; nothing here waits on the caller, nor the caller on a server: a target that accepts and
never answers costs its own time-out and nobody else's, and ``close`` abandons what is under way. Pages are bounded.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence

import httpx2

from kvtop.attach.server import Scrape, ServerWatch
from kvtop.attach.targets import Target

MAX_PAGE_BYTES = 32 << 20
TIMEOUT_SECONDS = 5.0
CLOSE_SECONDS = 0.1
IDLE_SECONDS = 0.05
"""How often the next target that is due is looked for."""


class Scraper:
    """``start``, then ``poll`` from one thread, then ``close``. The watches are changed by ``poll`` alone, so that its
    caller may read them at any time in between. ``on_scrape`` is called with each scrape before its watch takes it."""

    def __init__(
        self,
        watches: Sequence[ServerWatch],
        timeout_s: float = TIMEOUT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        on_scrape: Callable[[Scrape], None] = lambda scrape: None,
    ) -> None:
        self._watches = {watch.target.metrics: watch for watch in watches}
        self._timeout_s = timeout_s
        self._clock = clock
        self._on_scrape = on_scrape
        self._arrived: queue.SimpleQueue[Scrape] = queue.SimpleQueue()
        self._due: dict[str, float] = dict.fromkeys(self._watches, 0.0)
        """Page → when to ask next; absent while it is being asked."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scraper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def poll(self) -> int:
        """Hand to each watch what came for it; never waits. Returns how many scrapes there were."""
        taken = 0
        while True:
            try:
                scrape = self._arrived.get_nowait()
            except queue.Empty:
                return taken
            watch = self._watches[scrape.target.metrics]
            self._on_scrape(scrape)
            watch.take(scrape)
            with self._lock:
                pace = watch.health.next_s - scrape.answered_s
                self._due[scrape.target.metrics] = max(scrape.asked_s + pace, scrape.answered_s)
            taken += 1

    def close(self) -> None:
        """Stop asking; returns within CLOSE_SECONDS, whatever a server does. Closing twice is closing once."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        asyncio.run(self._ask_all())

    async def _ask_all(self) -> None:
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
        timeout = httpx2.Timeout(self._timeout_s)
        async with httpx2.AsyncClient(limits=limits, timeout=timeout, trust_env=False) as client:
            asking: set[asyncio.Task[None]] = set()
            while not self._closing.is_set():
                now_s = self._clock()
                with self._lock:
                    due = [page for page, at in self._due.items() if at <= now_s]
                    for page in due:
                        del self._due[page]
                for page in due:
                    task = asyncio.create_task(self._ask(client, self._watches[page].target))
                    asking.add(task)
                    task.add_done_callback(asking.discard)
                await asyncio.sleep(IDLE_SECONDS)
            for task in asking:
                task.cancel()

    async def _ask(self, client: httpx2.AsyncClient, target: Target) -> None:
        asked_s = self._clock()
        status, page, failure = 0, "", ""
        try:
            async with asyncio.timeout(self._timeout_s), client.stream("GET", target.metrics) as response:
                status = response.status_code
                parts: list[bytes] = []
                size = 0
                async for part in response.aiter_bytes():
                    parts.append(part)
                    size += len(part)
                    if size > MAX_PAGE_BYTES:
                        failure = f"its page is larger than {MAX_PAGE_BYTES >> 20} MiB"
                        break
                page = b"".join(parts).decode("utf-8", "replace")
        except (TimeoutError, httpx2.TimeoutException):
            failure = f"no answer within {self._timeout_s:g} s"
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            failure = _in_words(error)
        self._arrived.put(Scrape(target, asked_s, self._clock(), status, page, failure))


def _in_words(error: Exception) -> str:
    """Why there was no answer, from the innermost cause that says anything."""
    causes = [error]
    while (deeper := causes[-1].__cause__ or causes[-1].__context__) is not None and deeper not in causes:
        causes.append(deeper)  # type: ignore[arg-type]
    for cause in reversed(causes):
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused"
    return str(error) or type(error).__name__
