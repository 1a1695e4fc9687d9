"""The HTTP interface: which address does what, who may, and how faults read."""

from __future__ import annotations

import hmac
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kvtop.serve import told
from kvtop.serve.calls import Calls, encode
from kvtop.serve.faults import ApiFault
from kvtop.serve.limits import Gate, Limits
from kvtop.serve.link import EngineLink
from kvtop.serve.metrics import Metrics
from kvtop.serve.openapi import description

Handler = Callable[[Request], Awaitable[Response]]


class Api:
    """``app`` is the ASGI application. ``event_sources`` and ``table_sources`` are what pages of these names say."""

    def __init__(
        self,
        link: EngineLink,
        metrics: Metrics,
        gate: Gate,
        limits: Limits,
        *,
        model: str | None,
        api_key: str,
        event_sources: dict[str, Any],
        table_sources: dict[str, Any],
    ) -> None:
        self._link = link
        self._metrics = metrics
        self._gate = gate
        self._api_key = api_key.encode()
        self._calls = Calls(link, gate, limits, model)
        self._created = int(time.time())
        self.app = Starlette(
            routes=[
                Route("/v1/completions", self._guarded(self._calls.completions), methods=["POST"]),
                Route("/v1/chat/completions", self._guarded(self._calls.chat), methods=["POST"]),
                Route("/tokenize", self._guarded(self._calls.tokenize), methods=["POST"]),
                Route("/v1/models", self._guarded(self._models), methods=["GET"]),
                Route("/health", self._health, methods=["GET"]),
                Route("/metrics", self._metrics_page, methods=["GET"]),
                Route("/kv_event_sources", _always(event_sources), methods=["GET"]),
                Route("/kvtop_sources", _always(table_sources), methods=["GET"]),
                Route("/openapi.json", self._description, methods=["GET"]),
            ],
            exception_handlers={
                ApiFault: _tell_fault,
                HTTPException: _tell_http,
                ClientDisconnect: _tell_nobody,
                Exception: _tell_own_fault,
            },
        )

    def _guarded(self, handler: Handler) -> Handler:
        """Behind the key, where one was asked for."""

        async def guarded(request: Request) -> Response:
            if self._api_key:
                told_key = request.headers.get("authorization", "").encode()
                if not hmac.compare_digest(told_key, b"Bearer " + self._api_key):
                    raise ApiFault(401, "the API key is wrong or missing; expected Authorization: Bearer KEY")
            return await handler(request)

        return guarded

    async def _models(self, request: Request) -> Response:
        info = self._link.info
        model = told.Model(id=self._calls.model, created=self._created, max_model_len=info.max_model_len)
        return Response(encode(told.Models(data=[model])), media_type="application/json")

    async def _health(self, request: Request) -> Response:
        if self._gate.closed:
            raise ApiFault(503, "the server is ending", code="ending")
        _ = self._link.info  # raises where there is no engine
        return JSONResponse({"status": "ok", "engine": self._link.status.state})

    async def _description(self, request: Request) -> Response:
        try:
            model: str | None = self._calls.model
        except ApiFault:
            model = None
        return JSONResponse(description(model))

    async def _metrics_page(self, request: Request) -> Response:
        page, media_type = self._metrics.page()
        return Response(page, headers={"content-type": media_type})


def _always(answer: dict[str, Any]) -> Handler:
    async def handler(request: Request) -> Response:
        return JSONResponse(answer)

    return handler


async def _tell_fault(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, ApiFault)
    return JSONResponse(fault.body, fault.status, fault.headers)


async def _tell_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    what = f"{request.method} {request.url.path[:200]}: {error.detail}"
    return JSONResponse(ApiFault(error.status_code, what).body, error.status_code, error.headers)


async def _tell_nobody(request: Request, gone: Exception) -> Response:
    """The client left in the middle of its body; an answer is due all the same, and goes nowhere."""
    return Response(status_code=400)


async def _tell_own_fault(request: Request, error: Exception) -> Response:
    return JSONResponse(ApiFault(500, f"internal error: {type(error).__name__}").body, 500)  # the server logs it
