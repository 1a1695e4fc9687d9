"""Traffic for a what-if: the requests of a recording or of a workload file, and how long each answer was.

A recording tells lengths, arrivals and which blocks of prompts were alike, not the prompts. So a prompt is made up
whose blocks are equal exactly where the recorded ones were, and a request arrives at the step at which it had arrived.
Not known: what an answer shared with a later prompt, and what two prompts shared for less than a block.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from zlib import crc32

from kvtop.engine import events as e
from kvtop.engine.requests import Request
from kvtop.failure import Failure
from kvtop.view.pool_view import PoolView

Answers = dict[tuple[str, int], int]
"""Tokens of a request's i-th answer."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests ready to be injected into a simulated engine. ``info`` is the engine they were recorded on, None for a
    workload file; ``left_out`` counts requests of which too little is known."""

    requests: list[Request]
    answers: Answers
    info: e.EngineInfo | None = None
    left_out: int = 0


@dataclass(slots=True)
class _Heard:
    """What the recording has told of one request so far."""

    request_id: str
    seq: int
    prompt_tokens: int
    max_tokens: int
    n: int
    beam_width: int
    priority: int
    arrival_step: int
    digests: dict[int, int] = field(default_factory=dict)
    """Content hash of the prompt's blocks, by logical index."""
    generated: dict[int, int] = field(default_factory=dict)
    """Tokens of its answers, by index."""


class TrafficReader:
    """``hear`` every batch once a view has applied it, then ask for the ``traffic``. Where another engine begins, it
    begins anew."""

    def __init__(self, view: PoolView) -> None:
        """``view`` is where the recording begins: empty, or what a keyframe at its start shows."""
        self._begin()
        if view.info is not None:
            self._take_up(view)

    def _begin(self) -> None:
        self._info: e.EngineInfo | None = None
        self._number = 0
        self._first_step = 0
        self._heard: list[_Heard] = []
        self._of_seq: dict[int, tuple[_Heard, int]] = {}
        self._of_name: dict[str, _Heard] = {}
        self._rejected = 0

    def hear(self, batch: e.Batch, view: PoolView) -> None:
        if batch.number <= self._number:
            self._begin()
        if self._info is not None and batch.number == self._number + 1:
            for event in batch.events:
                self._hear_event(event, batch.step, view)
            self._number = batch.number
        elif batch.snapshot is not None:
            self._rejected += sum(isinstance(event, e.Rejected) for event in batch.events)
            self._take_up(view)
        # else batches are missing: only a snapshot tells who is there now

    def traffic(self) -> Traffic:
        """Everything heard.

        Raises:
            Failure: nothing was asked for in the whole recording.
        """
        if self._info is None or not self._heard:
            raise Failure("no request is recorded, so there is nothing to try otherwise")
        names = _unique_names(self._heard)
        requests = [self._request(heard, name) for heard, name in zip(self._heard, names, strict=True)]
        answers = {
            (name, index): tokens
            for heard, name in zip(self._heard, names, strict=True)
            for index, tokens in heard.generated.items()
        }
        return Traffic(requests, answers, self._info, self._rejected)

    # --- hearing ------------------------------------------------------------------------------------------------------

    def _take_up(self, view: PoolView) -> None:
        """Take the view as it stands: whoever is not known yet arrives now."""
        if self._info is None:
            self._info, self._first_step = view.info, view.step
        self._number = view.number
        for state in sorted(view.sequences.values(), key=lambda state: state.index):
            asked = (state.prompt_tokens, state.max_tokens, state.n, state.beam_width, state.priority)
            heard = self._of_name.get(state.request_id) or self._add(state.request_id, state.seq, asked, view.step)
            self._of_seq[state.seq] = heard, state.index
            heard.generated[state.index] = state.generated
            self._note_blocks(heard, state.table, view)

    def _add(self, request_id: str, seq: int, asked: tuple[int, int, int, int, int], step: int) -> _Heard:
        heard = _Heard(request_id, seq, *asked, step - self._first_step)
        self._heard.append(heard)
        self._of_name[request_id] = heard
        self._of_seq[seq] = heard, 0
        return heard

    def _hear_event(self, event: e.AnyEvent, step: int, view: PoolView) -> None:
        match event:
            case e.Queued():
                asked = (event.prompt_tokens, event.max_tokens, event.n, event.beam_width, event.priority)
                self._add(event.request_id, event.seq, asked, step)
            case e.Rejected():
                self._rejected += 1
            case e.Forked():
                self._of_seq[event.seq] = self._of_name[event.request_id], event.index
            case e.Cached():
                self._note_digests(self._of_seq[event.seq][0], event.logical, event.hashes)
            case e.Hit():
                self._note_blocks(self._of_seq[event.seq][0], e.from_runs(event.runs), view)
            case e.Advanced():
                for seq, token in zip(event.seqs, event.sampled, strict=True):
                    heard, index = self._of_seq[seq]
                    heard.generated[index] = heard.generated.get(index, 0) + (token >= 0)
            case e.Completed() if event.answer:
                self._of_name[event.request_id].generated = {0: event.generated}

    def _note_blocks(self, heard: _Heard, blocks: list[int], view: PoolView) -> None:
        self._note_digests(heard, 0, view.blocks.hashes[blocks].tolist())

    def _note_digests(self, heard: _Heard, logical: int, digests: list[int]) -> None:
        assert self._info is not None
        prompt_blocks = heard.prompt_tokens // self._info.block_size
        for place, digest in enumerate(digests, start=logical):
            if digest and place < prompt_blocks:
                heard.digests[place] = digest

    # --- making up ----------------------------------------------------------------------------------------------------

    def _request(self, heard: _Heard, name: str) -> Request:
        return Request(
            id=name,
            prompt_token_ids=self._prompt(heard, name),
            max_tokens=heard.generated.get(0, 0) or 1 if heard.beam_width else heard.max_tokens,
            arrival_step=heard.arrival_step,
            priority=heard.priority,
            n=heard.n,
            beam_width=heard.beam_width,
        )

    def _prompt(self, heard: _Heard, name: str) -> list[int]:
        """A prompt of the recorded length: equal blocks where the hashes are, else nothing like any other's."""
        assert self._info is not None
        size = self._info.block_size
        own = crc32(name.encode("utf-8", "replace"))
        tokens: list[int] = []
        for logical in range(-(-heard.prompt_tokens // size)):
            content = heard.digests.get(logical, 0) >> 1 or own << 20 | logical
            tokens += [content] * size
        return tokens[: heard.prompt_tokens]


def _unique_names(heard: list[_Heard]) -> list[str]:
    """The requests' ids; one that was used again gets its sequence's number."""
    seen: set[str] = set()
    names = []
    for one in heard:
        names.append(one.request_id if one.request_id not in seen else f"{one.request_id}#{one.seq}")
        seen.add(one.request_id)
    return names
