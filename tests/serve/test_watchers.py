"""Who watches a served engine from outside: metrics, KV events and true tables agree, public ways to decode fit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
import zmq

from kvtop.attach.exposition import PageReader, Reading
from kvtop.attach.fleet import foreign
from kvtop.attach.kv_listener import KvListener
from kvtop.attach.kv_sources import reachable, vllm_sources
from kvtop.attach.kv_stream import Restarted
from kvtop.attach.targets import parse_target
from kvtop.engine.control import BatchMessage, ClearCache, Inject, Pause, Reply, Step
from kvtop.engine.requests import Request
from kvtop.sources.exported import ExportedSource
from kvtop.sources.source import ViewMessage
from kvtop.view.pool_view import PoolView
from kvtop.view.residency import Residency, Scope
from tests.serve.served import Served


# How consumers of vLLM's KV events describe them, after its documentation; msgspec tells the kinds apart by name.
class EventBatch(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    ts: float
    events: list[Any]


class KVCacheEvent(msgspec.Struct, omit_defaults=True, gc=False, tag=True):
    pass


class BlockStored(KVCacheEvent):
    block_hashes: list[int | bytes]
    parent_block_hash: int | bytes | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None


class BlockRemoved(KVCacheEvent):
    block_hashes: list[int | bytes]
    medium: str | None


class AllBlocksCleared(KVCacheEvent):
    pass


class KVEventBatch(EventBatch):
    events: list[BlockStored | BlockRemoved | AllBlocksCleared]


class Watching:
    """Everything a watcher elsewhere can know of a served engine."""

    def __init__(self, served: Served) -> None:
        self.served = served
        target = parse_target(served.url)
        (source,) = vllm_sources(served.http.get("/kv_event_sources").json(), target)
        assert source.binds
        self.listener = KvListener(source)
        self.listener.start()
        self.residency = Residency()
        tables = served.http.get("/kvtop_sources").json()["0"]["endpoint"]
        self.tables = ExportedSource(reachable(tables, target.host))
        self.tables.start()
        self.view = PoolView()
        self.replies: list[Reply] = []
        self._pages = PageReader()

    def poll(self) -> None:
        for message in self.tables.poll():
            if isinstance(message, BatchMessage):
                self.view.apply(message.batch)
            elif isinstance(message, ViewMessage):
                self.view = message.view
            elif isinstance(message, Reply):
                self.replies.append(message)
        for step in self.listener.poll():
            assert not isinstance(step, Restarted)
            for event in step[1]:
                self.residency.apply(step[0], event)

    def reading(self) -> Reading:
        (reading,) = self._pages.read(self.served.http.get("/metrics").text)
        return reading

    def until(self, holds: Callable[[], object], otherwise: str) -> None:
        end_s = time.monotonic() + 10
        while not holds():
            assert time.monotonic() < end_s, otherwise
            self.poll()
            time.sleep(0.002)

    def resident(self) -> set[int]:
        """Contents that KV events say are in the prefix index."""
        return {node.hash for node in self.residency.walk(Scope(0, 0)) if not node.placeholder}  # type: ignore[misc]

    def indexed(self) -> set[int]:
        """The same by the true tables."""
        return {int(content) for content in self.view.blocks.hashes if content}

    def close(self) -> None:
        self.tables.close()
        self.listener.close()


@pytest.fixture
def watching() -> Iterator[Watching]:
    with Served(num_blocks=24, block_size=4, max_model_len=400, preempt="swap", swap_memory=6) as served:
        watching = Watching(served)
        yield watching
        watching.close()


def test_metrics_events_and_tables_agree_after_every_step_of_a_run_that_preempts(watching: Watching) -> None:
    served = watching.served
    requests = [
        Request(id=f"r{i}", prompt_token_ids=[1, 2, 3, 4, 5, 6, i % 3, i], max_tokens=20, n=1 + (i == 2), seed=i)
        for i in range(8)
    ]
    served.send(Pause())
    served.send(Inject(requests=requests))
    watching.until(lambda: len(watching.view.sequences) == 8, "the tables never showed the requests")
    preempted = 0
    for step in range(1, 400):
        if step == 20:
            served.send(ClearCache())
        served.send(Step())
        watching.until(lambda step=step: watching.view.step >= step, f"step {step} never came")  # type: ignore[misc]
        view = watching.view
        watching.until(lambda: watching.resident() == watching.indexed(), f"step {step}: events and tables differ")
        served.until(lambda view=view: served.front.link.view.number == view.number, "the server lags")  # type: ignore[misc]
        if step % 5 == 0 or not view.sequences:  # a scrape takes longer than all else here
            reading = watching.reading()
            assert reading.num_blocks is not None
            held = reading.gauges["usage"] * (reading.num_blocks - 1)
            assert round(held) == view.blocks.active == int(np.count_nonzero(view.blocks.ref_counts)), step
            assert reading.gauges["running"] == len(view.with_status("running")), step
            waiting = len(view.with_status("waiting")) + len(view.with_status("swapped"))
            assert reading.gauges["waiting"] == reading.labelled["waiting_by_reason"]["capacity"] == waiting, step
            assert reading.counters["preemptions"] == view.counters.preemptions, step
            assert reading.counters["generated_tokens"] == view.counters.generated_tokens, step
            assert reading.counters["prefix_hit"] == view.counters.prefix_hit_tokens, step
        preempted = view.counters.preemptions
        if not view.sequences:
            break
    else:
        pytest.fail("the run never ended")
    assert preempted > 3, "the pool was meant to be too small"
    assert watching.view.info is not None
    assert foreign(watching.view.info, watching.reading()) == "", "kvtop attach must not turn these tables away"
    assert watching.residency.clears == 1
    assert watching.tables.broken == watching.listener.broken == 0
    reading = watching.reading()
    assert reading.labelled["finished"]["length"] == 9
    assert reading.histograms["ttft"].count == reading.histograms["e2e"].count == 9
    assert reading.histograms["output_length"].total == 9 * 20
    assert (reading.block_size, reading.capacity_tokens) == (4, 96)


def test_a_watcher_of_the_tables_can_command_nothing_and_one_who_comes_late_sees_all(watching: Watching) -> None:
    served = watching.served
    served.send(Pause())
    served.send(Inject(requests=[Request(id="a", prompt_token_ids=list(range(10)), max_tokens=30)]))
    served.send(Step(steps=12))
    watching.until(lambda: watching.view.step == 12, "the steps never came")
    watching.tables.send(Pause(ticket=5))
    watching.until(lambda: watching.replies, "no reply")
    assert "this server cannot be paused" in watching.replies[0].error
    late = Watching(served)
    late.until(lambda: late.view.info is not None, "a late watcher sees nothing of an idle server")
    assert late.view.sequences[1].table == watching.view.sequences[1].table != []
    late.close()


def test_events_are_decoded_the_way_public_consumers_of_vllm_do_it_and_replayed_on_request(watching: Watching) -> None:
    served = watching.served
    prompt = list(range(20))
    served.send(Inject(requests=[Request(id="a", prompt_token_ids=prompt, max_tokens=4)]))
    watching.until(lambda: len(watching.resident()) == 5, "the prompt's five blocks were never told")
    told = served.http.get("/kv_event_sources").json()["0"]
    with zmq.Context() as context, context.socket(zmq.REQ) as replay:
        replay.connect(told["replay_endpoint"].replace("*", "127.0.0.1"))
        replay.send((0).to_bytes(8, "big"))
        decoder = msgspec.msgpack.Decoder(type=KVEventBatch)
        batches: list[KVEventBatch] = []
        while True:
            topic, number, payload = replay.recv_multipart()
            if number == (-1).to_bytes(8, "big", signed=True):
                break
            assert topic == told["topic"].encode()
            assert int.from_bytes(number, "big") == len(batches)
            batches.append(decoder.decode(payload))
            if not replay.getsockopt(zmq.RCVMORE) and replay.poll(2_000) == 0:
                break
    stored = [event for batch in batches for event in batch.events if isinstance(event, BlockStored)]
    assert [token for event in stored for token in event.token_ids] == prompt
    assert stored[0].parent_block_hash is None
    assert {event.medium for event in stored} == {"GPU"} and {event.block_size for event in stored} == {4}
    contents = {content for event in stored for content in event.block_hashes}
    watching.until(lambda: watching.indexed() == contents, "the tables never came to show the same contents")
