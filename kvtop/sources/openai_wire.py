"""What goes to an OpenAI endpoint and what comes back: a request's body, events of a stream, reasons for a refusal.

Whatever comes back is bounded in size, and its text is untrusted.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from kvtop.engine.requests import Request
from kvtop.view.clean import clean_line

MAX_LINE_BYTES = 1 << 20
MAX_PAGE_BYTES = 1 << 20


class Refused(Exception):
    """Something that was not carried out; the message is for the operator."""


def body_of(request: Request, model: str) -> dict[str, Any]:
    """A request as the body of ``/v1/completions``, or of ``/v1/chat/completions`` where ``request.chat``. Fields that
    OpenAI's own API lacks are there only when they are asked for."""
    body: dict[str, Any] = {
        "model": model,
        "stream": True,
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "n": request.n,
    }
    if request.chat:
        body["messages"] = [{"role": "user", "content": request.prompt}]
    else:
        body["prompt"] = request.prompt if request.prompt is not None else request.prompt_token_ids
    start = Request(id=request.id)
    for name in ("top_p", "top_k", "min_p", "repetition_penalty", "seed", "stop", "stop_token_ids", "ignore_eos"):
        if getattr(request, name) != getattr(start, name):
            body[name] = getattr(request, name)
    if request.priority:
        body["priority"] = request.priority
    if request.salt:
        body["cache_salt"] = request.salt
    return body


async def events_of(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The data of each server-sent event, up to ``[DONE]``. Raises Refused for a line without an end."""
    rest = b""
    async for part in response.aiter_bytes():
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                data = line[5:].strip()
                if data == b"[DONE]":
                    return
                yield data
        if len(rest) > MAX_LINE_BYTES:
            raise Refused(f"a line of its answer is longer than {MAX_LINE_BYTES >> 20} MiB")
    raise Refused("its answer broke off")


async def bounded(response: httpx2.Response) -> bytes:
    page = b""
    async for part in response.aiter_bytes():
        page += part
        if len(page) > MAX_PAGE_BYTES:
            raise Refused(f"its answer is larger than {MAX_PAGE_BYTES >> 20} MiB")
    return page


async def reason_of(response: httpx2.Response) -> str:
    """What a server says of a request that it refuses: OpenAI's form, or whatever it is, cleaned."""
    page = await bounded(response)
    try:
        said = json.loads(page)
        said = said.get("error", said)
        return clean_line(str(said.get("message", said)), 300)
    except (ValueError, AttributeError):
        return clean_line(page.decode("utf-8", "replace"), 200)


def in_words(failure: Exception, patience_s: float) -> str:
    """Why there was no answer, from the innermost cause that says anything."""
    cause: BaseException = failure
    while (deeper := cause.__cause__ or cause.__context__) is not None:
        cause = deeper
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused"
    if isinstance(failure, TimeoutError | httpx2.TimeoutException):
        return f"no answer within {patience_s:g} s"
    return clean_line(str(failure) or type(failure).__name__, 200)
