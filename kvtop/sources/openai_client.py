"""Sends requests to a server's OpenAI endpoint and hears its answers as they stream.

Takes the commands that such a server can carry out (Inject, Abort, Measure, ClearCache), from one thread, and never
waits: what comes of them is polled. A request is aborted by closing its stream. One thread of its own does the HTTP. A
request's id goes along as X-Request-Id, which vLLM makes part of the id it knows the request by.
"""

from __future__ import annotations

import asyncio
import functools
import json
import queue
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from kvtop.engine.control import Abort, AnyCommand, ClearCache, Inject, Measure, Reply
from kvtop.engine.requests import Request
from kvtop.sources.openai_wire import Refused, body_of, bounded, events_of, in_words, reason_of
from kvtop.view.clean import clean_line

CONNECT_SECONDS = 5.0
ACCEPT_SECONDS = 2.0
"""An Inject is answered by then: what has not been refused counts as taken."""
CLOSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Said:
    """A piece of an answer: ``text`` (untrusted) came with ``tokens`` tokens of the ``index``-th of n samples."""

    request_id: str
    index: int
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class StreamEnded:
    """A request's stream is over; ``error`` says why it was refused or broke off, else it is empty."""

    request_id: str
    error: str = ""


Word = Reply | Said | StreamEnded


class OpenAIClient:
    """``start``, then ``send`` and ``poll`` from one thread, then ``close``.

    Args:
        url: the server, such as ``http://127.0.0.1:8000``, without ``/v1``.
        model: the name it serves; empty: the first that it lists.
        headers: sent along each time (an API key).
        extra: fields added to every request's body, for servers known to take them.
    """

    def __init__(
        self,
        url: str,
        model: str = "",
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self._url = url.rstrip("/")
        self._model = model
        self._headers = dict(headers or {})
        self._extra = dict(extra or {})
        self._words: queue.SimpleQueue[Word] = queue.SimpleQueue()
        self._streams: dict[str, asyncio.Task[str]] = {}
        """Request id → what sends it and hears its answer."""
        self._commands: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="openai-client", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def send(self, command: AnyCommand) -> None:
        """Carry a command out, some time soon; its Reply comes with a later ``poll``."""
        self._loop.call_soon_threadsafe(self._begin, command)

    def poll(self) -> list[Word]:
        """What has come, oldest first."""
        words = []
        while not self._words.empty():
            words.append(self._words.get())
        return words

    def close(self) -> None:
        """Close every stream, which aborts its request. Closing twice is closing once."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join(CLOSE_SECONDS)
        elif not self._loop.is_closed():
            self._loop.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._stay())

    async def _stay(self) -> None:
        timeout = httpx2.Timeout(CONNECT_SECONDS, read=None, pool=None)  # a queued request may be silent for minutes
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=8)
        async with httpx2.AsyncClient(
            timeout=timeout, limits=limits, headers=self._headers, trust_env=False
        ) as self._http:
            await self._closing.wait()
            tasks = [*self._commands, *self._streams.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, command: AnyCommand) -> None:
        task = self._loop.create_task(self._carry_out(command))
        self._commands.add(task)
        task.add_done_callback(self._commands.discard)

    async def _carry_out(self, command: AnyCommand) -> None:
        error, value = "", 0
        try:
            match command:
                case Inject(requests=requests):
                    await self._inject(requests)
                case Abort(request_id=request_id):
                    self._abort(request_id)
                case Measure(request=request):
                    value = await self._measure(request)
                case ClearCache():
                    await self._clear_cache()
                case _:
                    name = type(command).__name__.lower()
                    raise Refused(f"{name}: a server takes no such command over its HTTP endpoint")
        except Refused as refused:
            error = str(refused)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as failure:
            error = f"{self._url}: {in_words(failure, CONNECT_SECONDS)}"
        self._words.put(Reply(ticket=command.ticket, error=error, value=value))

    # --- requests -------------------------------------------------------------------------------------------------

    async def _inject(self, requests: list[Request]) -> None:
        """Send each at its time. All are refused when one cannot be sent as it is; what the server refuses at once is
        an error too, the others go on."""
        for request in requests:
            self._check(request)
        await self._name_of_model()
        at_once = []
        for request in requests:
            taken = self._loop.create_future()
            task = self._loop.create_task(self._ask(request, taken))
            task.add_done_callback(functools.partial(self._end, request.id, taken))
            self._streams[request.id] = task
            if not request.arrival_s:
                at_once.append(taken)
        if at_once:
            done, _ = await asyncio.wait(at_once, timeout=ACCEPT_SECONDS)
            errors = [taken.result() for taken in at_once if taken in done and taken.result()]
            if errors:
                raise Refused(f"{len(errors)} of {len(requests)} refused: {errors[0]}" if requests[1:] else errors[0])

    def _check(self, request: Request) -> None:
        if request.beam_width:
            raise Refused(f"{request.id}: beam search does not stream over HTTP; leave beams at 0")
        if request.arrival_step is not None:
            raise Refused(f"{request.id}: arrival_step counts steps of kvtop's own engine; give arrival_s")
        if request.id in self._streams:
            raise Refused(f"{request.id}: a request of that id is under way")

    async def _ask(self, request: Request, taken: asyncio.Future[str]) -> str:
        """Send a request when its time has come and hear its answer; returns what went wrong, if anything. ``taken``
        gets an empty text as soon as it was not refused."""
        try:
            await asyncio.sleep(request.arrival_s)
            path = "/v1/chat/completions" if request.chat else "/v1/completions"
            body = body_of(request, self._model) | self._extra
            async with self._http.stream(
                "POST", self._url + path, json=body, headers={"X-Request-Id": request.id}
            ) as response:
                if response.status_code != 200:
                    raise Refused(f"HTTP {response.status_code}: {await reason_of(response)}")
                taken.set_result("")
                async for data in events_of(response):
                    self._hear(request.id, data)
        except Refused as refused:
            return f"{request.id}: {refused}"
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as failure:
            return f"{request.id}: {in_words(failure, CONNECT_SECONDS)}"
        return ""

    def _end(self, request_id: str, taken: asyncio.Future[str], stream: asyncio.Task[str]) -> None:
        del self._streams[request_id]
        error = "" if stream.cancelled() else stream.result()
        if not taken.done():
            taken.set_result(error)  # the Inject's answer tells; once is enough
            error = ""
        self._words.put(StreamEnded(request_id, error))

    def _hear(self, request_id: str, data: bytes) -> None:
        try:
            chunk = json.loads(data)
            if "error" in chunk:
                raise Refused(clean_line(str(chunk["error"].get("message", chunk["error"])), 300))
            for choice in chunk["choices"]:
                text = (choice["delta"].get("content") if "delta" in choice else choice["text"]) or ""
                tokens = len(choice.get("token_ids") or ()) or int(bool(text))
                if text or tokens:
                    self._words.put(Said(request_id, int(choice["index"]), str(text), tokens))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Refused(f"its answer cannot be read ({type(error).__name__}: {clean_line(str(error), 80)})") from None

    def _abort(self, request_id: str) -> None:
        stream = self._streams.get(request_id)
        if stream is None:
            raise Refused(f"abort: {clean_line(request_id, 60)} was not sent from here; only its sender can end it")
        stream.cancel()

    # --- other pages ----------------------------------------------------------------------------------------------

    async def _name_of_model(self) -> str:
        if not self._model:
            listed = await self._page("GET", "/v1/models")
            try:
                self._model = str(listed["data"][0]["id"])
            except (KeyError, IndexError, TypeError):
                raise Refused(f"{self._url} lists no model") from None
        return self._model

    async def _measure(self, request: Request) -> int:
        body: dict[str, Any] = {"model": await self._name_of_model()}
        if request.chat:
            body["messages"] = [{"role": "user", "content": request.prompt}]
        else:
            body["prompt"] = request.prompt
        counted = await self._page("POST", "/tokenize", body)
        try:
            return int(counted["count"])
        except (KeyError, TypeError, ValueError):
            raise Refused("its /tokenize does not say how many tokens there are") from None

    async def _clear_cache(self) -> None:
        try:
            await self._page("POST", "/reset_prefix_cache")
        except Refused as refused:
            why = f"clear cache: {refused}"
            if "HTTP 404" in why:
                why = "clear cache: this server does not offer it; vLLM does when started with VLLM_SERVER_DEV_MODE=1"
            raise Refused(why) from None

    async def _page(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        async with (
            asyncio.timeout(CONNECT_SECONDS),
            self._http.stream(method, self._url + path, json=body) as response,
        ):
            if response.status_code != 200:
                raise Refused(f"HTTP {response.status_code} for {path}: {await reason_of(response)}")
            page = await bounded(response)
        try:
            return json.loads(page) if page else None
        except ValueError:
            raise Refused(f"{path} is not JSON") from None
