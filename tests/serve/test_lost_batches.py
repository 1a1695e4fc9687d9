"""A server that lags behind its engine, or finds another engine: answers end with a fault rather than with a hole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kvtop.engine.control import Abort, AnyCommand, Inject, Reply, Status, TakeSnapshot
from kvtop.engine.events import Batch
from kvtop.engine.requests import Request
from kvtop.serve.answer import Call
from kvtop.serve.faults import ApiFault
from kvtop.serve.kv_events import AllBlocksCleared, BlockStored, KvTranslator
from kvtop.serve.link import EngineLink
from tests.engine.harness import Harness


class Wire:
    """A link over an engine that is driven by hand; batches may be lost on the way."""

    def __init__(self) -> None:
        self.engine = Harness(num_blocks=40, block_size=4).engine
        self.sent: list[AnyCommand] = []
        self.link = EngineLink(self._send, lambda view, batch: None)
        self.link.open()
        self.lose = False

    def _send(self, command: AnyCommand) -> None:
        self.sent.append(command)
        self.link.hear_word(self.engine.apply(command))
        self._pass_on(self.engine.flush())

    def _pass_on(self, batch: Batch | None) -> None:
        if batch is not None and not self.lose:
            self.link.hear_batch(batch)

    async def step(self, steps: int = 1) -> None:
        for _ in range(steps):
            self._pass_on(self.engine.step())
        await asyncio.sleep(0.01)

    async def begin(self) -> Call:
        self.link.hear_word(Status(state="idle"))
        await self.step()
        return await self.link.submit([Request(id="a", prompt_token_ids=[1, 2, 3, 4, 5], max_tokens=20)])


async def tokens_of(call: Call) -> list[int]:
    return [piece.token async for piece in call.pieces() if piece.token is not None]


async def test_an_answer_with_a_lost_part_ends_with_a_fault_and_is_aborted_in_the_engine() -> None:
    wire = Wire()
    call = await wire.begin()
    await wire.step(4)
    wire.lose = True
    await wire.step(3)
    wire.lose = False
    await wire.step()
    with pytest.raises(ApiFault, match="lost a part of this answer") as fault:
        await tokens_of(call)
    assert (fault.value.status, fault.value.code) == (503, "answer_lost")
    assert Abort(request_id="a", ticket=wire.sent[-2].ticket) in wire.sent
    assert isinstance(wire.sent[-1], TakeSnapshot)
    await wire.step()
    assert wire.link.view.incomplete_since is None and not wire.link.view.sequences
    again = await wire.link.submit([Request(id="b", prompt_token_ids=[1, 2, 3], max_tokens=3)])
    await wire.step(3)
    assert len(await tokens_of(again)) == 3, "the next call is answered as if nothing had been"


async def test_open_answers_end_when_another_engine_takes_the_old_one_s_place() -> None:
    wire = Wire()
    call = await wire.begin()
    await wire.step(4)
    wire.engine = Harness(num_blocks=40, block_size=4).engine
    await wire.step()
    with pytest.raises(ApiFault, match="the engine was started anew"):
        await tokens_of(call)
    assert wire.link.view.number == 1 and wire.link.view.info is not None


async def test_a_call_that_the_engine_has_not_answered_ends_when_it_fails() -> None:
    words: list[Callable[[], None]] = []
    link = EngineLink(lambda command: words.append(lambda: None), lambda view, batch: None)
    link.open()
    asking = asyncio.ensure_future(link.submit([Request(id="a", prompt_token_ids=[1], max_tokens=3)]))
    await asyncio.sleep(0.01)
    link.hear_word(Status(state="failed", detail="it burnt"))
    with pytest.raises(ApiFault, match="the engine has failed: it burnt"):
        await asking
    with pytest.raises(ApiFault, match="the engine has failed: it burnt"):  # nor does one wait that comes later
        await asyncio.wait_for(link.submit([Request(id="b", prompt_token_ids=[1], max_tokens=3)]), 1)
    assert link.open_answers == 0


async def test_a_reply_to_somebody_else_s_ticket_is_left_alone() -> None:
    wire = Wire()
    await wire.begin()
    wire.link.hear_word(Reply(ticket=3, error="the dashboard's"))
    await wire.step()
    assert all(command.ticket < 0 for command in wire.sent), "the dashboard's own tickets rise from 1"


def test_kv_events_say_that_all_is_cleared_where_a_batch_was_lost_and_tell_a_snapshot_anew() -> None:
    harness = Harness(num_blocks=40, block_size=4)
    translator = KvTranslator()
    first = harness.engine.flush()
    assert first is not None and translator.take(first) is None, "an empty pool has nothing to tell"
    request = Request(id="a", prompt_token_ids=list(range(12)), max_tokens=8)
    harness.engine.apply(Inject(requests=[request]))
    told = [translator.take(batch) for batch in (harness.engine.flush(), harness.engine.step()) if batch is not None]
    stored = [event for batch in told if batch for event in batch.events if isinstance(event, BlockStored)]
    assert [event.token_ids for event in stored] == [list(range(12))]
    for _ in range(5):
        harness.engine.step()  # lost
    harness.engine.apply(TakeSnapshot())
    again = harness.engine.step()
    assert again is not None
    batch = translator.take(again)
    assert batch is not None and isinstance(batch.events[0], AllBlocksCleared)
    anew = [event for event in batch.events if isinstance(event, BlockStored)]
    assert [event.block_hashes[0] for event in anew][:3] == stored[0].block_hashes
    assert [event.parent_block_hash for event in anew][:3] == [None, *stored[0].block_hashes[:2]]
