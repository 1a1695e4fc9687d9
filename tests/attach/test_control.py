"""A server's scheduler is held between steps by a controller of this user, and by nobody for longer than that lives."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from kvtop.engine.control import AnyCommand, ClearCache, Pause, Reply, Resume, Step
from kvtop.engine.wire import decode_message, encode, receive_frame, send_frame
from kvtop.exporter import door, hold, plugin, private
from kvtop.exporter.export import Exporter
from kvtop.view.pool_view import PoolView
from tests.attach.stand_in_vllm import Request, Scheduler


class Held:
    """A stand-in server that runs as fast as it may, with a door; what it tells goes into ``view``."""

    def __init__(self, folder: Path) -> None:
        scheduler_class = type("Scheduler", (Scheduler,), {})
        plugin.wrap(scheduler_class, f"ipc://{folder}/tables", "0.32.0")
        self.scheduler = scheduler_class(40, 4)
        exporter = plugin._exporter_of(self.scheduler, "", "0.32.0")
        assert isinstance(exporter, Exporter)
        self.exporter = exporter
        self.view = PoolView()
        put = exporter.outlet.put
        whole = exporter._whole()
        assert whole is not None
        self.view.apply(whole)

        def put_and_apply(batch):
            self.view.apply(batch)
            put(batch)

        exporter.outlet.put = put_and_apply  # type: ignore[method-assign]
        self.incoming: list[Request] = []
        self.closing = False
        self.rounds = 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        self.path = folder / "tables-0.control"
        self.controllers: list[socket.socket] = []

    def run(self) -> None:
        """The engine core's loop: take requests in, schedule, compute, take over."""
        while not self.closing:
            while self.incoming:
                self.scheduler.add(self.incoming.pop(0))
            if self.scheduler.requests:
                self.scheduler.update_from_output(self.scheduler.schedule(), 1)
            self.rounds += 1
            time.sleep(0.001)

    def controller(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(str(self.path))
        connection.settimeout(5)
        greeting = receive_frame(connection)
        assert greeting is not None and len(msgspec.msgpack.decode(greeting, type=door.Greeting).session) == 32
        self.controllers.append(connection)
        return connection

    def command(self, connection: socket.socket, command: AnyCommand) -> Reply:
        send_frame(connection, encode(command))
        frame = receive_frame(connection)
        assert frame is not None
        reply = decode_message(frame)
        assert isinstance(reply, Reply)
        return reply

    def stands(self) -> int:
        """The step at which it stands, when it does."""
        end = time.monotonic() + 5
        while time.monotonic() < end:
            step, rounds = self.view.step, self.rounds
            time.sleep(0.15)
            if self.view.step == step and self.rounds > rounds:
                return step
        raise AssertionError(f"it runs on, at step {self.view.step}")

    def close(self) -> None:
        self.closing = True
        self.thread.join(5)
        for connection in self.controllers:
            connection.close()
        self.exporter.close()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    monkeypatch.setenv("KVTOP_CONTROL", "1")
    server = Held(tmp_path)
    yield server
    server.close()


def test_paused_it_stands_between_two_steps_and_takes_requests_in_all_the_same(server: Held) -> None:
    server.incoming.append(Request("a", [1] * 9, 100_000))
    controller = server.controller()
    time.sleep(0.1)
    assert server.command(controller, Pause(ticket=3)) == Reply(ticket=3)
    step = server.stands()
    assert server.view.paused and step > 0
    server.incoming.append(Request("b", [2] * 9, 5))
    time.sleep(0.2)
    assert {row.request_id: row.status for row in server.view.sequences.values()} == {"a": "running", "b": "waiting"}
    assert server.view.counters.steps == server.view.step == step
    server.scheduler.abort("b")
    time.sleep(0.2)
    assert [row.request_id for row in server.view.sequences.values()] == ["a"], "and ends aborted ones"
    assert server.command(controller, Resume()).error == ""
    time.sleep(0.2)
    assert not server.view.paused and server.view.step > step


def test_a_step_is_one_step_and_three_are_three(server: Held) -> None:
    server.incoming.append(Request("a", [1] * 9, 100_000))
    controller = server.controller()
    server.command(controller, Pause())
    step = server.stands()
    tokens = next(iter(server.view.sequences.values())).tokens
    server.command(controller, Step(steps=1))
    assert server.stands() == step + 1
    server.command(controller, Step(steps=3))
    assert server.stands() == step + 4
    assert next(iter(server.view.sequences.values())).tokens == tokens + 4


def test_stepping_ends_at_the_event_that_is_waited_for(server: Held) -> None:
    server.incoming.append(Request("a", [1] * 9, 30))
    controller = server.controller()
    server.command(controller, Pause())
    server.command(controller, Step(steps=100_000, until="allocated"))
    step = server.stands()
    (row,) = server.view.sequences.values()
    held = len(row.table)
    server.command(controller, Step(steps=100_000, until="allocated"))
    assert server.stands() > step
    assert len(next(iter(server.view.sequences.values())).table) == held + 1
    server.command(controller, Step(steps=100_000, until="finished"))
    time.sleep(0.2)
    assert not server.view.sequences and server.view.paused


def test_an_idle_server_is_paused_at_once_and_its_first_request_waits(server: Held) -> None:
    controller = server.controller()
    server.command(controller, Pause())
    assert server.view.paused
    server.incoming.append(Request("a", [1] * 9, 5))
    assert server.stands() == 0
    assert [row.status for row in server.view.sequences.values()] == ["waiting"]
    server.command(controller, Step(steps=1))
    assert server.stands() == 1, "a step that was let go before there was work would be lost"


def test_a_silent_controller_is_lost_and_the_server_runs_on(
    server: Held, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hold, "LOST_SECONDS", 1.0)
    server.incoming.append(Request("a", [1] * 9, 100_000))
    controller = server.controller()
    server.command(controller, Pause())
    step = server.stands()
    for _ in range(6):
        send_frame(controller, b"")  # it lives
        time.sleep(0.25)
    assert server.stands() == step
    controller.close()
    end = time.monotonic() + 5
    while server.view.paused and time.monotonic() < end:
        time.sleep(0.05)
    assert not server.view.paused
    time.sleep(0.1)
    assert server.view.step > step
    assert "the controller was silent" in caplog.text


def test_what_is_not_pausing_and_no_command_at_all_are_refused_and_do_no_harm(server: Held) -> None:
    controller = server.controller()
    assert "takes pause, resume and step only" in server.command(controller, ClearCache()).error
    assert "expected 1 or more" in server.command(controller, Step(steps=0)).error
    assert "expected 1 or more and an event type" in server.command(controller, Step(until="rain")).error
    send_frame(controller, b"\xff\xff")
    assert receive_frame(controller) is None
    assert server.command(server.controller(), Pause()).error == ""


def test_only_this_user_can_open_the_door(server: Held) -> None:
    assert server.path.stat().st_mode & 0o777 == 0o600


def test_without_the_variable_there_is_no_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "0", "off"):
        monkeypatch.setenv("KVTOP_CONTROL", value)
        server = Held(tmp_path)
        server.close()
        assert not server.path.exists()


def test_a_server_that_cannot_be_held_tells_its_tables_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KVTOP_CONTROL", "1")

    class Older(Scheduler):
        def __init__(self, num_blocks: int, block_size: int) -> None:
            super().__init__(num_blocks, block_size)
            del self._pause_state

    plugin.wrap(Older, f"ipc://{tmp_path}/tables", "0.32.0")
    exporter = plugin._exporter_of(Older(8, 4), "", "0.32.0")
    assert isinstance(exporter, Exporter)
    exporter.close()
    assert "nobody can pause this server" in caplog.text and not list(tmp_path.glob("*.control"))


def test_a_fault_of_the_hold_never_reaches_the_server_and_lets_it_run_on(
    server: Held, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server.incoming.append(Request("a", [1] * 9, 100_000))
    server.command(server.controller(), Pause())
    step = server.stands()
    monkeypatch.setattr(hold.Hold, "may_schedule", lambda self: 1 / 0)
    time.sleep(0.3)
    assert server.view.step > step and server.thread.is_alive()
    assert caplog.text.count("holding failed, so it runs on") == 1


def test_a_socket_left_by_a_dead_server_is_no_hindrance(tmp_path: Path) -> None:
    path = tmp_path / "left"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    door.Door(path, "0" * 32, hold.Hold(lambda held: None), logging.getLogger("vllm.kvtop")).close()
    assert not path.exists()


def test_the_private_folder_is_refused_when_others_can_open_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 987_654_321)  # nobody's
    folder = Path("/tmp/kvtop-987654321")
    try:
        with pytest.raises(PermissionError, match="is not a folder that only you can open"):
            private.private_folder()  # made just now, but by somebody else
    finally:
        shutil.rmtree(folder)


def test_the_door_of_an_address_is_found_by_its_port_or_beside_its_socket() -> None:
    assert private.control_path("ipc:///a/b/tables-1") == Path("/a/b/tables-1.control")
    assert private.control_path("tcp://127.0.0.1:5581") == private.private_folder() / "5581.control"
