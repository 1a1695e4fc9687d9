"""Batches of a server's exporter, told in the words of who asked: with our request ids, prompts, and texts of answers.

The exporter knows block tables and token ids; what was asked, and what the answers say, is known where the requests
were sent from. A batch waits, for a moment at most, until the text of its tokens has been heard, so that a step and its
word are shown together. Requests of others pass as they are.
"""

from __future__ import annotations

import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from kvtop.engine import events as e
from kvtop.engine.requests import Request
from kvtop.sources.openai_client import Said, StreamEnded

WAIT_SECONDS = 0.25
STEPPED_WAIT_SECONDS = 1.5
"""Where somebody steps, word by word: nothing piles up meanwhile."""
MOST_PROMPT = 300
"""Characters of a prompt that are told."""
_COMPLETION = re.compile(r"(?:(\d+)_)?cmpl-(.+)-0-[0-9a-f]{8}")
_CHAT = re.compile(r"(?:(\d+)_)?chatcmpl-(.+)-[0-9a-f]{8}")
"""How vLLM names a request that came with X-Request-Id: for n samples, n requests with a number before the name."""


@dataclass(slots=True)
class Answer:
    """One answer under way: what was heard of it over HTTP, how much of it was told by the exporter."""

    name: str
    request_id: str
    index: int
    """Of n samples."""
    prompt: str
    told: int = 0
    """Tokens."""
    heard: int = 0
    pieces: deque[tuple[int, str]] = field(default_factory=deque)
    """Text that was not told yet, with the number of its first token."""
    text: str = ""
    """All that was told, its end."""
    is_over: bool = False

    def take_text(self, up_to: int) -> str:
        """Text of the tokens up to a number that was not taken yet."""
        text = ""
        while self.pieces and self.pieces[0][0] <= up_to:
            text += self.pieces.popleft()[1]
        self.text = (self.text + text)[-2_000:]
        return text


class Narration:
    """``ask`` and ``hear`` what goes over HTTP, ``put`` batches in, ``take`` them out in the same order."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked: dict[tuple[str, int], Answer] = {}
        """(request id, sample) → answer, until the exporter told its end."""
        self._by_id: dict[str, Answer] = {}
        """The server's own id → the same, while the server knows it."""
        self._by_seq: dict[int, Answer] = {}
        self._waiting: deque[tuple[float, e.Batch]] = deque()

    def ask(self, requests: Iterable[Request]) -> None:
        """These go out now."""
        told = {id(answer) for answer in self._by_id.values()}
        self._asked = {key: known for key, known in self._asked.items() if not known.is_over or id(known) in told}
        for request in requests:
            for index in range(request.n):
                name = f"{request.id}/{index}" if request.n > 1 else request.id
                self._asked[request.id, index] = Answer(name, request.id, index, (request.prompt or "")[:MOST_PROMPT])

    def hear(self, word: Said | StreamEnded) -> None:
        """A piece of an answer, or the end of a request's stream."""
        if isinstance(word, Said):
            answer = self._asked.get((word.request_id, word.index))
            if answer is not None:
                answer.pieces.append((answer.heard + 1, word.text))
                answer.heard += word.tokens
        else:
            index = 0
            while (answer := self._asked.get((word.request_id, index))) is not None:
                answer.is_over = True
                index += 1

    def request_of(self, name: str) -> str:
        """The id of the request that an answer of that name belongs to."""
        return next((answer.request_id for answer in self._asked.values() if answer.name == name), name)

    def put(self, batch: e.Batch) -> None:
        """A batch as the exporter sent it."""
        self._waiting.append((self._clock(), self._named(batch)))

    def take(self, patience_s: float = WAIT_SECONDS) -> list[e.Batch]:
        """The batches whose texts are there, or were waited for long enough."""
        ready = []
        while self._waiting:
            arrived_s, batch = self._waiting[0]
            if self._clock() - arrived_s < patience_s and not self._is_heard(batch):
                break
            self._waiting.popleft()
            ready.append(self._with_texts(batch))
        return ready

    # --- names ----------------------------------------------------------------------------------------------------

    def _named(self, batch: e.Batch) -> e.Batch:
        """With our names for our requests."""
        events = [self._name_event(event) for event in batch.events]
        snapshot = batch.snapshot
        if snapshot is not None:
            snapshot = replace(snapshot, sequences=[self._name_state(state) for state in snapshot.sequences])
        return replace(batch, events=events, snapshot=snapshot)

    def _name_event(self, event: e.AnyEvent) -> e.AnyEvent:
        if isinstance(event, e.Queued) and (answer := self._meet(event.seq, event.request_id)):
            return replace(event, request_id=answer.name, prompt=answer.prompt)
        if isinstance(event, e.Finished | e.Completed) and (answer := self._by_id.get(event.request_id)):
            if isinstance(event, e.Completed):
                del self._by_id[event.request_id]
            return replace(event, request_id=answer.name)
        return event

    def _name_state(self, state: e.SequenceState) -> e.SequenceState:
        answer = self._meet(state.seq, state.request_id)
        if answer is None:
            return state
        answer.told = max(answer.told, state.tokens - state.prompt_tokens)
        return replace(state, request_id=answer.name, prompt=answer.prompt, text=answer.text)

    def _meet(self, seq: int, server_id: str) -> Answer | None:
        """The answer that the server knows as ``server_id``, if it is one of ours."""
        found = _COMPLETION.fullmatch(server_id) or _CHAT.fullmatch(server_id)
        answer = self._asked.get((found[2], int(found[1] or 0))) if found else None
        if answer is not None:
            self._by_id[server_id] = self._by_seq[seq] = answer
        return answer

    # --- texts ----------------------------------------------------------------------------------------------------

    def _is_heard(self, batch: e.Batch) -> bool:
        """Whether the text of every token of ours has come."""
        due: Counter[int] = Counter()
        for seq, token in _sampled(batch):
            if token >= 0 and seq in self._by_seq:
                due[seq] += 1
        return all(
            self._by_seq[seq].is_over or self._by_seq[seq].heard >= self._by_seq[seq].told + tokens
            for seq, tokens in due.items()
        )

    def _with_texts(self, batch: e.Batch) -> e.Batch:
        ended = [event for event in batch.events if isinstance(event, e.Finished)]
        over = {event.seq for event in ended}
        events = [self._with_text(event, over) if isinstance(event, e.Advanced) else event for event in batch.events]
        for event in ended:
            answer = self._by_seq.pop(event.seq, None)
            if answer is not None:
                self._asked.pop((answer.request_id, answer.index), None)
        return replace(batch, events=events)

    def _with_text(self, event: e.Advanced, over: set[int]) -> e.Advanced:
        """``over``: sequences that end with this batch, so that all of their text is due."""
        texts = list(event.texts)
        for at, (seq, token) in enumerate(zip(event.seqs, event.sampled, strict=True)):
            answer = self._by_seq.get(seq)
            if answer is not None and token >= 0:
                answer.told += 1
                last = seq in over and seq not in event.seqs[at + 1 :]
                texts[at] = answer.take_text(answer.heard + 1 if last else answer.told)
        return replace(event, texts=texts) if texts != event.texts else event


def _sampled(batch: e.Batch) -> Iterator[tuple[int, int]]:
    """(sequence, token or -1) of each row that a batch's steps computed."""
    for event in batch.events:
        if isinstance(event, e.Advanced):
            yield from zip(event.seqs, event.sampled, strict=True)
