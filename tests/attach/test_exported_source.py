"""A server with the exporter inside, watched over a real socket: gaps, restarts, silence, commands it refuses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from kvtop.engine.control import BatchMessage, ClearCache, Pause, Reply, Status, Step, TakeSnapshot
from kvtop.exporter import plugin
from kvtop.exporter.export import Exporter
from kvtop.sources.exported import ExportedSource
from kvtop.sources.source import ViewMessage
from kvtop.view.pool_view import PoolView
from tests.attach.stand_in_vllm import Request, Scheduler


class Watched:
    """A stand-in server with the exporter, and somebody who watches it."""

    def __init__(self) -> None:
        self.begin_server("tcp://127.0.0.1:0")
        self.source = ExportedSource(self.exporter.outlet.address)
        self.view = PoolView()
        self.statuses: list[str] = []
        self.replies: list[Reply] = []
        self.lose = False
        self.source.start()

    def begin_server(self, address: str) -> None:
        scheduler_class = type("Scheduler", (Scheduler,), {})
        plugin.wrap(scheduler_class, address, "0.32.0")
        self.scheduler = scheduler_class(40, 4)
        self.scheduler.update_from_output(self.scheduler.schedule(), 1)
        exporter = plugin._exporter_of(self.scheduler, address, "0.32.0")
        assert isinstance(exporter, Exporter)
        self.exporter = exporter

    def step(self, steps: int = 1) -> None:
        for _ in range(steps):
            self.scheduler.update_from_output(self.scheduler.schedule(), 1)

    def poll(self) -> None:
        for message in self.source.poll():
            if isinstance(message, BatchMessage):
                if not self.lose or message.batch.snapshot:
                    self.view.apply(message.batch)
            elif isinstance(message, ViewMessage):
                self.view = message.view
            elif isinstance(message, Status):
                self.statuses.append(message.detail)
            else:
                self.replies.append(message)

    def wait(self, holds: Callable[[], bool], timeout_s: float = 6.0) -> None:
        end = time.monotonic() + timeout_s
        while not holds():
            assert time.monotonic() < end, f"it never came about; {self.statuses}"
            self.poll()
            time.sleep(0.005)

    @property
    def is_up_to_date(self) -> bool:
        tables = self.scheduler.kv_cache_manager.coordinator.single_type_managers[0].req_to_blocks
        held = {name: [block.block_id - 1 for block in table] for name, table in tables.items()}
        shown = {sequence.request_id: sequence.table for sequence in self.view.sequences.values()}
        return self.view.info is not None and self.view.incomplete_since is None and shown == held


@pytest.fixture
def watched() -> Iterator[Watched]:
    watched = Watched()
    yield watched
    watched.source.close()
    watched.exporter.close()


def test_an_idle_server_shows_its_state_at_once_and_then_every_step(watched: Watched) -> None:
    watched.wait(lambda: watched.is_up_to_date)
    assert watched.view.info is not None and watched.view.info.first_block == 1
    watched.scheduler.add(Request("a", [1] * 9, 20))
    watched.step(5)
    watched.wait(lambda: watched.is_up_to_date and bool(watched.view.sequences))
    assert any("true tables of vLLM 0.32.0, rank 0" in status for status in watched.statuses)


def test_a_missed_batch_is_noticed_and_the_whole_state_asked_for(watched: Watched) -> None:
    watched.wait(lambda: watched.is_up_to_date)
    watched.scheduler.add(Request("a", [1] * 9, 40))
    watched.lose = True
    watched.step(4)
    watched.wait(lambda: watched.source.age_s() is not None)
    time.sleep(0.1)
    watched.poll()
    watched.lose = False
    watched.step(4)
    watched.wait(lambda: watched.view.incomplete_since is not None)
    watched.source.send(TakeSnapshot(ticket=3))
    watched.wait(lambda: watched.is_up_to_date and bool(watched.view.sequences))
    assert watched.replies == [Reply(ticket=3)]


def test_row_7_a_restarted_server_leaves_no_ghosts(watched: Watched) -> None:
    watched.scheduler.add(Request("old", [1] * 9, 40))
    watched.step(3)
    watched.wait(lambda: watched.is_up_to_date and bool(watched.view.sequences))
    watched.exporter.close()
    watched.begin_server(watched.source.endpoint)
    watched.scheduler.add(Request("new", [2] * 5, 40))
    watched.step(2)
    watched.wait(lambda: watched.is_up_to_date and bool(watched.view.sequences))
    assert [sequence.request_id for sequence in watched.view.sequences.values()] == ["new"]
    assert "the server began anew; its old state is gone" in watched.statuses


def test_silence_is_said_and_so_is_the_next_word(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvtop.sources.exported.SILENT_SECONDS", 0.3)
    watched.wait(lambda: watched.is_up_to_date)
    watched.wait(lambda: any("what is shown is old" in status for status in watched.statuses))
    watched.wait(lambda: "the exporter speaks again" in watched.statuses)


def test_a_watched_server_takes_no_commands(watched: Watched) -> None:
    watched.source.send(ClearCache(ticket=9))
    watched.wait(lambda: bool(watched.replies))
    error = "clearcache: this server is only watched; commands to its scheduler cannot be sent from here"
    assert watched.replies == [Reply(ticket=9, error=error)]


def test_a_server_that_was_not_started_so_cannot_be_paused_and_says_how_it_could(watched: Watched) -> None:
    watched.wait(lambda: watched.is_up_to_date)
    watched.source.send(Pause(ticket=9))
    watched.wait(lambda: bool(watched.replies))
    assert watched.replies[0].ticket == 9
    assert "a vLLM on this machine can, started with KVTOP_CONTROL=1" in watched.replies[0].error


def test_a_server_that_was_started_so_is_paused_stepped_and_let_go_when_its_watcher_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KVTOP_CONTROL", "1")
    watched = Watched()
    try:
        watched.wait(lambda: watched.is_up_to_date)
        watched.scheduler.add(Request("a", [1] * 9, 100))
        for command in (Pause(ticket=1), Step(ticket=2, steps=2)):
            watched.source.send(command)
        watched.wait(lambda: watched.replies == [Reply(ticket=1), Reply(ticket=2)])
        watched.step(5)
        watched.wait(lambda: watched.view.paused and watched.view.step == 2)
        watched.source.close()
        end = time.monotonic() + 5
        while watched.exporter.hold.held:
            assert time.monotonic() < end
            time.sleep(0.01)
    finally:
        watched.source.close()
        watched.exporter.close()


def test_closing_is_quick_even_where_nobody_listens() -> None:
    source = ExportedSource("tcp://127.0.0.1:9")
    source.start()
    began = time.monotonic()
    source.close()
    assert time.monotonic() - began < 0.3
