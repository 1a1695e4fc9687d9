"""Between the event loop of the server and the engine's process: requests go out as commands, batches come back.

Batches and words come from the thread that reads the engine (``hear_batch``, ``hear_word``); everything else runs on
the loop. Answers are built from events alone. Where a batch was lost, what it told of open answers is lost too: they
end with a fault rather than with a hole in them. A new engine in the place of the old one is noticed by its numbers.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Iterable

import msgspec

from kvtop.engine.control import Abort, AnyCommand, Inject, Measure, Reply, Spell, Status, TakeSnapshot
from kvtop.engine.events import Advanced, Batch, Completed, EngineInfo, Finished, Forked, Queued, Rejected
from kvtop.engine.requests import Request
from kvtop.serve.answer import Answer, Call, Piece
from kvtop.serve.faults import ApiFault, bad_field
from kvtop.view.pool_view import PoolView

_WHICH_REQUEST = re.compile(r"request(?: \d+ \(.*?\))?: ", re.DOTALL)
MAX_SPELLED = 200_000
"""Tokens whose spelling is kept."""


class EngineLink:
    """``send`` puts a command on its way to the engine, from any thread. ``observe`` is told of every batch after the
    view has taken it in. Tickets are negative, so that they meet nobody else's."""

    def __init__(self, send: Callable[[AnyCommand], None], observe: Callable[[PoolView, Batch], None]) -> None:
        self.view = PoolView()
        self.status = Status(state="loading", detail="starting the engine")
        self._send = send
        self._observe = observe
        self._tickets = itertools.count(-1, -1)
        self._replies: dict[int, asyncio.Future[Reply]] = {}
        self._answers: dict[str, Answer] = {}
        self._samples: dict[int, tuple[Answer, int]] = {}
        """Sequence → the answer it belongs to, and its choice."""
        self._spelled: dict[int, str] = {}
        self._asked_snapshot = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self) -> None:
        """Begin to hear; called on the loop that everything happens on from here."""
        self._loop = asyncio.get_running_loop()

    # --- from the reading thread --------------------------------------------------------------------------------------

    def hear_batch(self, batch: Batch) -> None:
        self._hand_over(self._take_batch, batch)

    def hear_word(self, word: Reply | Status) -> None:
        self._hand_over(self._take_word, word)

    def _hand_over(self, take: Callable[..., None], message: Batch | Reply | Status) -> None:
        try:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(take, message)
        except RuntimeError:  # the server has ended, the engine has not yet
            self._loop = None

    # --- what clients want --------------------------------------------------------------------------------------------

    @property
    def info(self) -> EngineInfo:
        """
        Raises:
            ApiFault: there is no engine that could answer.
        """
        self._refuse_if_gone()
        if self.view.info is None or self.status.state == "loading":
            raise ApiFault(503, f"the engine is loading: {self.status.detail}", code="engine_loading")
        return self.view.info

    def _refuse_if_gone(self) -> None:
        if self.status.state in ("failed", "stopped"):
            raise ApiFault(503, _farewell(self.status), code="engine_gone")

    @property
    def open_answers(self) -> int:
        return len(self._answers)

    @property
    def waiting(self) -> int:
        """Sequences in the engine's queue."""
        return len(self.view.with_status("waiting"))

    async def submit(self, requests: list[Request]) -> Call:
        """Hand requests to the engine, all or none; returns when it has taken them.

        Raises:
            ApiFault: it refuses one, or is gone.
        """
        for request in requests:
            if request.id in self._answers:
                raise ApiFault(400, f"X-Request-Id: {request.id!r} is open already; give each call one of its own")
        call = Call(requests)
        self._answers |= {answer.request.id: answer for answer in call.answers}
        try:
            reply = await self._ask(Inject(requests=requests))
            if reply.error:
                raise _refusal(reply.error)
            for answer in call.answers:
                await answer.began
        except BaseException:
            self.abandon(call)
            raise
        return call

    async def measure(self, request: Request) -> int:
        """Tokens of a request's prompt.

        Raises:
            ApiFault: it cannot be tokenized, or the engine is gone.
        """
        reply = await self._ask(Measure(request=request))
        if reply.error:
            raise _refusal(reply.error)
        return reply.value

    def abandon(self, call: Call) -> None:
        """Nobody waits for a call any more: the engine shall drop what it still has of it, and the blocks."""
        for answer in call.answers:
            if self._answers.pop(answer.request.id, None) is not None and not answer.over:
                answer.over = True
                self._tell(Abort(request_id=answer.request.id))

    async def spell(self, tokens: Iterable[int]) -> dict[int, str]:
        """What single tokens read as."""
        wanted = set(tokens)
        unknown = sorted(wanted - self._spelled.keys())
        if unknown:
            reply = await self._ask(Spell(token_ids=unknown))
            if len(self._spelled) > MAX_SPELLED:
                self._spelled.clear()
                return await self.spell(wanted)
            self._spelled |= dict(zip(unknown, reply.texts, strict=True))
        return {token: self._spelled[token] for token in wanted}

    async def _ask(self, command: AnyCommand) -> Reply:
        self._refuse_if_gone()  # nobody would ever reply
        ticket = next(self._tickets)
        self._replies[ticket] = asyncio.get_running_loop().create_future()
        try:
            self._tell(command, ticket)
            return await self._replies[ticket]
        finally:
            del self._replies[ticket]

    def _tell(self, command: AnyCommand, ticket: int | None = None) -> None:
        numbered = msgspec.structs.replace(command, ticket=next(self._tickets) if ticket is None else ticket)
        try:
            self._send(numbered)
        except ValueError as error:
            raise ApiFault(400, str(error)) from None

    # --- what the engine says -----------------------------------------------------------------------------------------

    def _take_word(self, word: Reply | Status) -> None:
        if isinstance(word, Status):
            self.status = word
            if word.state in ("failed", "stopped"):
                self._break_off(_farewell(word), "engine_gone")
        elif (future := self._replies.get(word.ticket)) is not None and not future.done():
            future.set_result(word)

    def _take_batch(self, batch: Batch) -> None:
        if batch.number <= self.view.number:  # another engine began
            self._break_off("the engine was started anew", "engine_gone")
            self.view = PoolView()
        elif self.view.info is not None and batch.number > self.view.number + 1:
            self._break_off("the server fell behind its engine and lost a part of this answer", "answer_lost")
        self.view.apply(batch)
        self._fill_gap()
        for event in batch.events:
            match event:
                case Advanced():
                    self._advance(event)
                case Queued():
                    self._queue(event)
                case Forked():
                    self._fork(event)
                case Finished():
                    self._finish(event)
                case Completed() | Rejected():
                    self._end(event)
        self._observe(self.view, batch)

    def _fill_gap(self) -> None:
        missing = self.view.incomplete_since is not None
        if missing and not self._asked_snapshot:
            self._tell(TakeSnapshot())
        self._asked_snapshot = missing

    def _queue(self, event: Queued) -> None:
        if (answer := self._answers.get(event.request_id)) is not None:
            answer.begin(event.prompt_tokens)
            self._samples[event.seq] = (answer, answer.first_choice)

    def _fork(self, event: Forked) -> None:
        if (answer := self._answers.get(event.request_id)) is not None:
            self._samples[event.seq] = (answer, answer.first_choice + event.index)

    def _advance(self, event: Advanced) -> None:
        for row, seq in enumerate(event.seqs):
            if event.sampled[row] >= 0 and (sample := self._samples.get(seq)) is not None:
                answer, choice = sample
                tells = bool(event.logprobs)
                answer.add(
                    Piece(
                        choice,
                        event.sampled[row],
                        event.texts[row],
                        event.logprobs[row] if tells else 0.0,
                        event.tops[row] if tells else [],
                    )
                )

    def _finish(self, event: Finished) -> None:
        if (sample := self._samples.pop(event.seq, None)) is not None:
            answer, choice = sample
            answer.add(Piece(choice, finish=event.reason, stop_reason=event.stop_reason))

    def _end(self, event: Completed | Rejected) -> None:
        answer = self._answers.pop(event.request_id, None)
        if answer is None:
            return
        if isinstance(event, Completed):
            answer.complete(event)
        else:
            longest = self.view.info.max_model_len if self.view.info else 0
            code = "context_length_exceeded" if event.prompt_tokens > longest else "does_not_fit"
            field = "messages" if answer.request.messages is not None else "prompt"
            answer.fail(ApiFault(400, f"{field}: {event.reason}", param=field, code=code))

    def _break_off(self, why: str, code: str) -> None:
        """All that is open ends here; an engine that still has it shall drop it."""
        gone = self.status.state in ("failed", "stopped")
        fault = ApiFault(503, why, code=code)
        for answer in list(self._answers.values()):
            answer.fail(fault)
            if not gone:
                self._tell(Abort(request_id=answer.request.id))
        self._answers.clear()
        self._samples.clear()
        for future in self._replies.values():
            if not future.done():
                future.set_exception(fault)


def _refusal(error: str) -> ApiFault:
    """The engine's sentence without its own count of requests: ``request 1 ('cmpl-…'): prompt: …``."""
    return bad_field(_WHICH_REQUEST.sub("", error, count=1))


def _farewell(last: Status) -> str:
    """What clients are told of an engine that is no more."""
    return f"the engine has {last.state}" + (f": {last.detail}" if last.detail else "")
