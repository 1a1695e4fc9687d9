"""Requests that are sent from here to one watched server, over its OpenAI endpoint, and what became of each.

``send`` and ``poll`` are called from one thread and never wait. A server is spoken to only once somebody sends
something. What it says is kept for the last requests, as much as a line shows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal

import msgspec

from kvtop.engine.control import Abort, AnyCommand, Inject, Reply
from kvtop.engine.requests import Request
from kvtop.sources.openai_client import OpenAIClient, Said
from kvtop.view.clean import clean_line

KEPT_REQUESTS = 500
KEPT_TEXT = 400

SentState = Literal["waits", "streams", "done", "aborted", "failed"]
"""``waits``: nothing of its answer has come, or its time has not."""


@dataclass(slots=True)
class SentRequest:
    """Times are the caller's clock's seconds."""

    id: str
    asked: str
    """What was asked, in short; clean."""
    due_s: float
    """When it was, or is, to be sent."""
    state: SentState = "waits"
    tokens: int = 0
    text: str = ""
    """The end of its answer; clean."""
    first_s: float | None = None
    """When the first piece of its answer came."""
    last_s: float | None = None
    ended_s: float | None = None
    error: str = ""

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens after the first one, over the time since it."""
        if self.first_s is None or self.last_s is None or self.tokens < 2 or self.last_s <= self.first_s:
            return None
        return (self.tokens - 1) / (self.last_s - self.first_s)


class ServerTraffic:
    """``sent`` holds the last requests by id, oldest first; what is under way is never dropped."""

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.url = url
        self.sent: dict[str, SentRequest] = {}
        self._clock = clock
        self._client: OpenAIClient | None = None
        self._tickets = count(1)
        self._answers: dict[int, Callable[[Reply], None]] = {}
        self._number = 0

    @property
    def next_number(self) -> int:
        """Of the next request that is made up here: ``req-17``."""
        return self._number + 1

    @property
    def under_way(self) -> int:
        return sum(request.ended_s is None for request in self.sent.values())

    def send(self, command: AnyCommand, answer: Callable[[Reply], None] = lambda reply: None) -> None:
        """Have a command carried out; ``answer`` gets its Reply from a later ``poll``."""
        if self._client is None:
            self._client = OpenAIClient(self.url)
            self._client.start()
        if isinstance(command, Inject):
            self._note(command.requests)
            answer = self._told_of_refusal(command.requests, answer)
        elif isinstance(command, Abort) and command.request_id in self.sent:
            self.sent[command.request_id].state = "aborted"
        ticket = next(self._tickets)
        self._answers[ticket] = answer
        self._client.send(msgspec.structs.replace(command, ticket=ticket))

    def abort_all(self) -> int:
        """End all that is under way; how many that were."""
        going = [request.id for request in self.sent.values() if request.ended_s is None]
        for request_id in going:
            self.send(Abort(request_id=request_id))
        return len(going)

    def poll(self) -> bool:
        """Take over what has come; True when there was anything."""
        words = self._client.poll() if self._client is not None else []
        for word in words:
            if isinstance(word, Reply):
                self._answers.pop(word.ticket, lambda reply: None)(word)
            elif isinstance(word, Said):
                self._hear(word)
            else:
                self._end(word.request_id, word.error)
        return bool(words)

    def close(self) -> None:
        """Speak to the server no more: what is under way is aborted. Closing twice is closing once."""
        if self._client is not None:
            self._client.close()

    def _note(self, requests: Sequence[Request]) -> None:
        now_s = self._clock()
        for request in requests:
            asked = request.prompt or f"{len(request.prompt_token_ids or ()):,} token ids"
            self.sent[request.id] = SentRequest(request.id, clean_line(asked, 80), now_s + request.arrival_s)
        self._number += len(requests)
        over = [request.id for request in self.sent.values() if request.ended_s is not None]
        for request_id in over[: max(0, len(self.sent) - KEPT_REQUESTS)]:
            del self.sent[request_id]

    def _told_of_refusal(self, requests: Sequence[Request], answer: Callable[[Reply], None]) -> Callable[[Reply], None]:
        """What was refused at once is told by the reply to all, and by no word of its own."""

        def answered(reply: Reply) -> None:
            if reply.error:
                known = [self.sent[request.id] for request in requests if request.id in self.sent]
                refused = [sent for sent in known if sent.ended_s is not None and not sent.tokens]
                for sent in refused or known:  # nothing ended: nothing was sent at all
                    sent.state, sent.error = "failed", clean_line(reply.error, 200)
                    sent.ended_s = self._clock()
            answer(reply)

        return answered

    def _hear(self, said: Said) -> None:
        request = self.sent.get(said.request_id)
        if request is None:
            return
        request.last_s = self._clock()
        if request.first_s is None:
            request.first_s = request.last_s
        if request.state == "waits":
            request.state = "streams"
        request.tokens += said.tokens
        request.text = (request.text + clean_line(said.text, KEPT_TEXT))[-KEPT_TEXT:]

    def _end(self, request_id: str, error: str) -> None:
        request = self.sent.get(request_id)
        if request is None:
            return
        request.ended_s = self._clock()
        request.error = clean_line(error, 200)
        if request.state != "aborted":
            request.state = "failed" if error else "done"
