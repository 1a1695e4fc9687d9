"""One call on its way through the engine, as its caller waits for it: what comes goes in, pieces go out.

A call is one request, or one a prompt; each has one or more samples, and every sample of every prompt is a choice with
a number of its own. Everything here happens on the server's event loop. A request ends in exactly one way: completed,
refused before it began, or broken off by a fault.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from kvtop.engine.events import Completed, FinishReason
from kvtop.engine.requests import Request
from kvtop.serve.faults import ApiFault


@dataclass(frozen=True, slots=True)
class Piece:
    """What one choice gained: a token with the text that became final with it, or its end."""

    choice: int
    token: int | None = None
    text: str = ""
    logprob: float = 0.0
    top: list[tuple[int, float]] = field(default_factory=list)
    finish: FinishReason | None = None
    stop_reason: str | int | None = None


class Answer:
    """What comes of one request. ``first_choice`` is the number of its first sample."""

    def __init__(self, request: Request, call: Call, first_choice: int) -> None:
        self.request = request
        self.first_choice = first_choice
        self.prompt_tokens = 0
        self.generated = 0
        self.completed: Completed | None = None
        self.over = False
        """The engine has ended it, or never had it, or nobody waits for it."""
        self.began: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the engine has taken the request, or failed with the ApiFault that says why it has not."""
        self._call = call

    def begin(self, prompt_tokens: int) -> None:
        self.prompt_tokens = prompt_tokens
        if not self.began.done():
            self.began.set_result(None)

    def add(self, piece: Piece) -> None:
        self.generated += piece.token is not None
        self._call.put(piece)

    def complete(self, event: Completed) -> None:
        self.completed = event
        self.over = True
        self._call.end_one()

    def fail(self, fault: ApiFault) -> None:
        """It is refused, or broken off."""
        if self.over:
            return
        self.over = True
        if not self.began.done():
            self.began.set_exception(fault)
            self.began.exception()  # somebody may have left before they were told
        self._call.end_one(fault)


class Call:
    """All answers of one call, and their pieces in the order in which they come."""

    def __init__(self, requests: list[Request]) -> None:
        self._pieces: asyncio.Queue[Piece | None] = asyncio.Queue()
        self._open = len(requests)
        self._fault: ApiFault | None = None
        self.answers: list[Answer] = []
        for request in requests:
            self.answers.append(Answer(request, self, sum(answer.request.n for answer in self.answers)))

    @property
    def prompt_tokens(self) -> int:
        return sum(answer.prompt_tokens for answer in self.answers)

    @property
    def generated(self) -> int:
        return sum(answer.generated for answer in self.answers)

    @property
    def cached_tokens(self) -> int | None:
        """Prompt tokens that came from the prefix cache; None before all have ended."""
        ends = [answer.completed for answer in self.answers]
        return sum(end.cached_tokens for end in ends if end) if all(ends) else None

    async def pieces(self) -> AsyncIterator[Piece]:
        """
        Raises:
            ApiFault: an answer was broken off.
        """
        while (piece := await self._pieces.get()) is not None:
            yield piece
        if self._fault is not None:
            raise self._fault

    def put(self, piece: Piece) -> None:
        self._pieces.put_nowait(piece)

    def end_one(self, fault: ApiFault | None = None) -> None:
        """One answer is over; the first fault ends the call."""
        self._open -= 1
        self._fault = self._fault or fault
        if fault is not None or self._open == 0:
            self._pieces.put_nowait(None)
