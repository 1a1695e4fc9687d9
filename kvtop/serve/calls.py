"""The two calls that make the engine write: from the body to the last byte of the answer.

A call ends in one of four ways: answered, refused (before anything was sent), broken off by a fault (in a stream: told
in its last body), or left by its client. Whichever it is, what the engine still has of it is dropped.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import AsyncIterator

import msgspec
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kvtop.engine.requests import Request
from kvtop.serve import told
from kvtop.serve.answer import Call, Piece
from kvtop.serve.asked import Asked, ChatAsked, CompletionAsked, TokenizeAsked
from kvtop.serve.departure import ClientGone, Departure
from kvtop.serve.faults import ApiFault
from kvtop.serve.limits import Gate, Limits, read_limited
from kvtop.serve.link import EngineLink
from kvtop.serve.reading import read_body
from kvtop.serve.translate import chat_request, check_model, check_stream, completion_requests, measured_request
from kvtop.serve.wording import ChatWriter, CompletionWriter, Spelling, Writer, tokens_named, usage_of

encode = msgspec.json.Encoder().encode
_PLAIN_NAME = re.compile(r"[!-~]{1,64}")
_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class Calls:
    """Answers calls. ``model``: what clients call the model; None: as the engine does."""

    def __init__(self, link: EngineLink, gate: Gate, limits: Limits, model: str | None) -> None:
        self._link = link
        self._gate = gate
        self._limits = limits
        self._model = model

    @property
    def model(self) -> str:
        """
        Raises:
            ApiFault: the engine is not there.
        """
        return self._model or self._link.info.model

    async def completions(self, http: HttpRequest) -> Response:
        asked = read_body(await read_limited(http, self._limits.body_bytes), CompletionAsked)
        self._check(asked)
        call_id = _name_of(http, "cmpl")
        requests = completion_requests(asked, call_id, self._link.info.max_model_len)
        choices = sum(request.n for request in requests)
        writer = CompletionWriter(call_id, self.model, int(time.time()), choices, asked.logprobs is not None)
        return Answering(self._link, self._gate, requests, writer, asked)

    async def chat(self, http: HttpRequest) -> Response:
        asked = read_body(await read_limited(http, self._limits.body_bytes), ChatAsked)
        self._check(asked)
        call_id = _name_of(http, "chat")
        request = chat_request(asked, call_id, self._link.info.max_model_len)
        writer = ChatWriter(call_id, self.model, int(time.time()), request.n, bool(asked.logprobs))
        return Answering(self._link, self._gate, [request], writer, asked)

    async def tokenize(self, http: HttpRequest) -> Response:
        asked = read_body(await read_limited(http, self._limits.body_bytes), TokenizeAsked)
        if asked.model is not None:
            check_model(asked.model, self.model)
        longest = self._link.info.max_model_len
        count = await self._link.measure(measured_request(asked))
        return Response(encode(told.Tokens(count, longest)), media_type="application/json")

    def _check(self, asked: Asked) -> None:
        check_model(asked.model, self.model)
        check_stream(asked)


def _name_of(http: HttpRequest, kind: str) -> str:
    """What the call and its request go by: the client's own X-Request-Id, where it has a plain one."""
    own = http.headers.get("x-request-id", "")
    return f"{kind}-{own if _PLAIN_NAME.fullmatch(own) else uuid.uuid4().hex[:8]}"


class Answering(Response):
    """One call's answer in the making, whole or as a stream."""

    def __init__(self, link: EngineLink, gate: Gate, requests: list[Request], writer: Writer, asked: Asked) -> None:
        self._link = link
        self._gate = gate
        self._requests = requests
        self._writer = writer
        self._streams = bool(asked.stream)
        options = asked.stream_options
        self._tells_usage = bool(options and options.include_usage)
        self._always_tells_usage = bool(options and options.continuous_usage_stats)
        self._spells = requests[0].logprobs is not None
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call: Call | None = None
        try:
            async with Departure(receive) as departure:
                with self._gate.pass_through(self._link.waiting):
                    call = await departure.during(self._link.submit(self._requests))
                    answer = self._stream(call, send) if self._streams else self._whole(call, scope, receive, send)
                    await departure.during(answer)
        except ClientGone:
            pass
        finally:
            if call is not None:
                self._link.abandon(call)

    async def _whole(self, call: Call, scope: Scope, receive: Receive, send: Send) -> None:
        pieces = [piece async for piece in call.pieces()]
        spelling = await self._spell(pieces)
        body = self._writer.whole(pieces, spelling, usage_of(call))
        await Response(encode(body), media_type="application/json")(scope, receive, send)

    async def _stream(self, call: Call, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
        async for body in self._bodies(call):
            await send({"type": "http.response.body", "body": b"data: " + body + b"\n\n", "more_body": True})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False})

    async def _bodies(self, call: Call) -> AsyncIterator[bytes]:
        try:
            async for piece in call.pieces():
                chunk = self._writer.chunk(piece, await self._spell([piece]))
                if chunk is not None:
                    chunk.usage = usage_of(call) if self._always_tells_usage else None
                    yield encode(chunk)
            if self._tells_usage:
                yield encode(self._writer.closing(usage_of(call)))
        except ApiFault as fault:  # the status has been sent long ago
            yield encode(fault.body)

    async def _spell(self, pieces: list[Piece]) -> Spelling:
        if not self._spells:
            return {}
        return await self._link.spell(token for piece in pieces for token in tokens_named(piece))
