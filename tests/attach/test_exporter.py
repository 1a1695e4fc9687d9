"""The exporter on stand-ins shaped like vLLM 0.32's objects: what it tells, what it costs, what it never does."""

from __future__ import annotations

import logging
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
import zmq

from kvtop.engine import events as e
from kvtop.exporter import plugin
from kvtop.exporter.differ import Differ
from kvtop.exporter.export import Exporter
from kvtop.exporter.outlet import MAX_WAITING, Outlet
from kvtop.exporter.vllm_reader import NotExportable, VllmReader, check_version, info_of
from kvtop.exporter.wire import TOPIC, VERSION, Speaker, decode_batch, decode_speaker
from kvtop.view.pool_view import PoolView
from tests.attach.stand_in_vllm import Request, Scheduler

SPEAKER = Speaker(version=VERSION, session="one", rank=0, server="vLLM 0.32.0", dropped=0, spent_s=0.0)
ANYWHERE = "tcp://127.0.0.1:0"
LOG = logging.getLogger("vllm.kvtop")


class Kept:
    """Stands where the outlet's socket is: keeps what is put."""

    def __init__(self) -> None:
        self.batches: list[e.Batch] = []
        self.dropped = 0
        self.spent_s = 0.0

    def put(self, batch: e.Batch) -> None:
        self.batches.append(msgspec.msgpack.decode(msgspec.msgpack.encode(batch), type=e.Batch))

    def close(self) -> None: ...


class Driven:
    """A stand-in scheduler with wrapped calls, and a view of what its exporter tells."""

    def __init__(self, num_blocks: int = 14, block_size: int = 4, **settings: int) -> None:
        scheduler_class = type("Scheduler", (Scheduler,), {})
        self.kept = Kept()
        plugin.wrap(scheduler_class, ANYWHERE, "0.32.0")
        self.scheduler = scheduler_class(num_blocks, block_size, **settings)
        exporter = plugin._exporter_of(self.scheduler, ANYWHERE, "0.32.0")
        assert isinstance(exporter, Exporter)
        exporter.outlet.close()
        exporter.outlet = self.kept  # type: ignore[assignment]
        self.exporter = exporter
        self.view = PoolView()
        self.added = 0

    def add(self, prompt: list[int], max_tokens: int) -> str:
        self.added += 1
        self.scheduler.add(Request(f"req-{self.added}", prompt, max_tokens))
        return f"req-{self.added}"

    def step(self, token: int = 1) -> None:
        scheduled = self.scheduler.schedule()
        if self.view.info is None:
            whole = self.exporter._whole()
            assert whole is not None
            self.view.apply(whole)
        self._apply()
        self.assert_equal()
        self.scheduler.update_from_output(scheduled, token)
        self._apply()
        self.assert_equal()
        pool = self.scheduler.kv_cache_manager.block_pool
        assert (self.view.blocks.hashes != 0).tolist() == [block.block_hash is not None for block in pool.blocks[1:]]

    def _apply(self) -> None:
        for batch in self.kept.batches:
            self.view.apply(batch)
        self.kept.batches.clear()

    def assert_equal(self) -> None:
        """The view is the scheduler's state, block for block."""
        pool = self.scheduler.kv_cache_manager.block_pool
        view = self.view
        assert view.incomplete_since is None
        assert view.blocks.ref_counts.tolist() == [block.ref_cnt for block in pool.blocks[1:]]
        assert (view.blocks.idle_order() + 1).tolist() == pool.free_block_queue.order()
        assert {s.request_id for s in view.sequences.values()} == set(self.scheduler.requests)
        tables = self.scheduler.kv_cache_manager.coordinator.single_type_managers[0].req_to_blocks
        for sequence in view.sequences.values():
            request = self.scheduler.requests[sequence.request_id]
            held = [block.block_id for block in tables.get(sequence.request_id, [])]
            assert [block + 1 for block in sequence.table] == held
            assert (sequence.status == "running") == (request in self.scheduler.running)
            assert sequence.tokens == len(request._all_token_ids)
            assert sequence.preemptions == request.num_preemptions


@pytest.mark.parametrize("seed", range(30))
def test_random_traffic_is_told_exactly(seed: int) -> None:
    chance = random.Random(seed)
    driven = Driven(chance.choice((8, 14, 30)), chance.choice((1, 2, 4)), max_running=chance.choice((2, 5)))
    starts = [[1] * 20, [1] * 8 + [2] * 12]
    longest = (len(driven.scheduler.kv_cache_manager.block_pool.blocks) - 2) * driven.scheduler._size
    for _ in range(80):
        pick = chance.random()
        if pick < 0.5:
            prompt = chance.choice(starts)[: chance.randrange(1, min(20, longest // 2) + 1)]
            driven.add(prompt, chance.randrange(1, max(2, min(12, longest - len(prompt)))))
        elif pick < 0.6 and driven.scheduler.requests:
            driven.scheduler.abort(chance.choice(list(driven.scheduler.requests)))
        elif pick < 0.7:
            driven.scheduler.reset_prefix_cache()
        driven.step(chance.randrange(3))
    assert driven.exporter.faults == 0 and driven.exporter.new_starts == 0
    assert driven.view.counters == driven.exporter._differ.mirror.counters


def test_hashes_are_those_that_kv_events_carry() -> None:
    driven = Driven()
    driven.add([1] * 9, 3)
    driven.step()
    pool = driven.scheduler.kv_cache_manager.block_pool
    block = int(np.flatnonzero(driven.view.blocks.hashes)[0])
    whole_hash = pool.blocks[block + 1].block_hash[:-4]
    assert int(driven.view.blocks.hashes[block]) == int.from_bytes(whole_hash, "big") & ((1 << 64) - 1)


def test_step_times_are_told() -> None:
    driven = Driven()
    driven.add([1] * 9, 3)
    driven.step()
    timing = driven.view.last_timing
    assert timing is not None and (timing.prefill_tokens, timing.decode_tokens) == (9, 0)
    driven.step()
    timing = driven.view.last_timing
    assert timing is not None and (timing.prefill_tokens, timing.decode_tokens) == (0, 1)
    assert driven.view.counters.steps == 2


def test_what_cannot_be_told_is_said_and_the_whole_state_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvtop.exporter.export.RESTART_SECONDS", 0.0)
    driven = Driven()
    driven.add([1] * 9, 8)
    driven.step()
    pool = driven.scheduler.kv_cache_manager.block_pool
    pool.touch(pool.blocks[-1])  # behind the scheduler's back
    scheduled = driven.scheduler.schedule()
    driven.scheduler.update_from_output(scheduled, 1)
    driven._apply()
    driven.assert_equal()
    assert driven.exporter.new_starts == 1
    assert any("began anew" in getattr(entry.event, "message", "") for entry in driven.view.log.entries)


def test_a_fault_of_the_exporter_never_reaches_the_server(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kvtop.exporter.export.RESTART_SECONDS", 0.0)
    driven = Driven()
    driven.add([1] * 9, 50)
    for work in ("observe", "begin"):
        monkeypatch.setattr(driven.exporter._differ, work, lambda: 1 / 0)
    for _ in range(5):
        driven.scheduler.update_from_output(driven.scheduler.schedule(), 1)
    assert len(driven.scheduler.requests["req-1"]._all_token_ids) == 14
    assert driven.exporter.faults == 3, "then it is off"
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 3
    assert "is off; the server is not affected" in caplog.text


@pytest.mark.parametrize("version", ["0.31.4", "0.33.0", "1.0.0", "0.3.20"])
def test_an_unknown_version_is_refused_in_one_line(version: str) -> None:
    with pytest.raises(NotExportable, match=rf"knows the inside of vLLM 0\.32\.x, and this is {version}"):
        check_version(version)


def test_a_hybrid_model_and_a_kv_connector_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    scheduler = Scheduler(8, 4)
    scheduler.connector = object()
    with pytest.raises(NotExportable, match="blocks leave this server"):
        VllmReader(scheduler)
    managers = scheduler.kv_cache_manager.coordinator
    managers.single_type_managers = (managers.single_type_managers[0], object())
    with pytest.raises(NotExportable, match="full attention only"):
        VllmReader(scheduler)

    class Connected(Scheduler):
        def __init__(self, num_blocks: int, block_size: int) -> None:
            super().__init__(num_blocks, block_size)
            self.connector = object()

    plugin.wrap(Connected, ANYWHERE, "0.32.0")
    server = Connected(8, 4)
    for _ in range(3):
        server.update_from_output(server.schedule(), 1)
    assert [record.message for record in caplog.records] == [
        "kvtop: the exporter is off: blocks leave this server by object"
    ]


def test_without_the_variable_nothing_of_vllm_is_imported() -> None:
    script = "import sys, kvtop.exporter.plugin as p; p.register(); print([m for m in sys.modules if m[:4] == 'vllm'])"
    for value in ("", "0", "off"):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "KVTOP_EXPORT": value},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == "[]" and done.stderr == ""


def test_with_the_variable_and_no_vllm_one_line_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KVTOP_EXPORT", "1")
    plugin.register()
    assert [record.message for record in caplog.records] == ["kvtop: the exporter is off: No module named 'vllm'"]


@pytest.mark.parametrize(
    ("wanted", "address"),
    [("1", "tcp://127.0.0.1:5580"), ("10.0.0.5:7000", "tcp://10.0.0.5:7000"), ("tcp://*:1", "tcp://*:1")],
)
def test_the_address_is_loopback_unless_told_otherwise(wanted: str, address: str) -> None:
    assert plugin.address_of(wanted) == address


def test_a_variable_that_is_no_address_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 1, or an address such as"):
        plugin.address_of("yes please")


# --- the socket -------------------------------------------------------------------------------------------------------


def batch_of(number: int, snapshot: e.Snapshot | None = None) -> e.Batch:
    return e.Batch(number=number, step=number, monotonic_s=0, wall_s=0, snapshot=snapshot)


class Listener:
    def __init__(self, address: str) -> None:
        self.context: zmq.Context[Any] = zmq.Context()
        self.socket = self.context.socket(zmq.SUB)
        self.socket.connect(address)
        self.subscribe()

    def subscribe(self) -> None:
        self.socket.setsockopt(zmq.SUBSCRIBE, TOPIC)

    def numbers(self, count: int, timeout_s: float = 5.0) -> list[int]:
        """Numbers of the next batches; those of whole states are negative."""
        result: list[int] = []
        end = time.monotonic() + timeout_s
        while len(result) < count:
            assert self.socket.poll(max(0, int(1000 * (end - time.monotonic())))), f"only {result} came"
            _, speaker, payload = self.socket.recv_multipart()
            self.speaker = decode_speaker(speaker)
            batch = decode_batch(payload)
            result.append(-batch.number if batch.snapshot else batch.number)
        return result

    def close(self) -> None:
        self.context.destroy(linger=0)


def whole_of(number: int) -> e.Batch:
    scheduler = Scheduler(4, 2)
    differ = Differ(VllmReader(scheduler), info_of(scheduler, "0.32.0"))
    differ.begin()
    return batch_of(number, differ.mirror.snapshot(0))


def test_a_subscriber_gets_the_whole_state_then_differences() -> None:
    sent = [7]
    outlet = Outlet(ANYWHERE, SPEAKER, lambda: whole_of(sent[0]))
    listener = Listener(outlet.address)
    try:
        assert listener.numbers(1) == [-7]
        for number in (8, 9):
            sent[0] = number
            outlet.put(batch_of(number))
        assert listener.numbers(2) == [8, 9]
        assert listener.speaker == SPEAKER
        listener.socket.setsockopt(zmq.UNSUBSCRIBE, TOPIC)
        listener.subscribe()
        assert listener.numbers(1) == [-9], "subscribing again asks for the whole state"
    finally:
        listener.close()
        outlet.close()


def test_a_full_queue_drops_all_that_waits_and_the_whole_state_follows() -> None:
    last = MAX_WAITING + 9
    go_on = threading.Event()

    def whole() -> e.Batch:
        go_on.wait(5)
        return whole_of(last)

    outlet = Outlet(ANYWHERE, SPEAKER, whole)
    listener = Listener(outlet.address)
    try:
        while not outlet.subscribers:  # from now on the sending thread is held up in ``whole``
            time.sleep(0.001)
        for number in range(1, last + 1):
            outlet.put(batch_of(number))
        assert outlet.dropped == MAX_WAITING
        go_on.set()
        assert listener.numbers(11) == [*range(MAX_WAITING + 1, last + 1), -last, -last]
        assert listener.speaker.dropped == MAX_WAITING
    finally:
        listener.close()
        outlet.close()


def test_nobody_subscribed_means_nothing_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []
    monkeypatch.setattr("kvtop.exporter.outlet.encode_batch", lambda batch: encoded.append(batch.number))
    outlet = Outlet(ANYWHERE, SPEAKER, lambda: whole_of(1))
    try:
        outlet.put(batch_of(1))
        end = time.monotonic() + 5
        while outlet._waiting and time.monotonic() < end:
            time.sleep(0.01)
        assert not outlet._waiting and encoded == []
    finally:
        outlet.close()


def test_an_address_that_is_taken_switches_the_exporter_off_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    outlet = Outlet(ANYWHERE, SPEAKER, lambda: whole_of(1))
    try:
        assert plugin._exporter_of(Scheduler(8, 4), outlet.address, "0.32.0") is None
        assert "the exporter is off: Address already in use" in caplog.text
    finally:
        outlet.close()


def test_what_an_observation_looks_at_does_not_grow_with_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = [0]

    def counted(name: str) -> None:
        ask = getattr(VllmReader, name)

        def ask_and_count(self: VllmReader, *arguments: int) -> Any:
            answer = ask(self, *arguments)
            if isinstance(answer, int):
                looked_at[0] += 1
                return answer
            return count_each(answer)

        monkeypatch.setattr(VllmReader, name, ask_and_count)

    def count_each(blocks: Iterable[int]) -> Iterator[int]:
        for block in blocks:
            looked_at[0] += 1
            yield block

    for name in ("queue", "queue_backwards", "block_hash", "ref_counts", "block_hashes"):
        counted(name)
    seen: dict[int, int] = {}
    for num_blocks in (600, 100_000):
        driven = Driven(num_blocks, 16, max_running=16, budget=512)
        for i in range(16):
            driven.add([i] * 100, 40 + i)
        driven.scheduler.update_from_output(driven.scheduler.schedule(), 1)
        looked_at[0] = 0
        for _ in range(80):
            driven.scheduler.update_from_output(driven.scheduler.schedule(), 1)
        assert not driven.scheduler.requests and driven.exporter.new_starts == 0
        seen[num_blocks] = looked_at[0]
    assert seen[100_000] == seen[600] < 1_000
