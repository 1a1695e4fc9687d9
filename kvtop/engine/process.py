"""The engine's own process: one engine, one socket to the watcher that started it.

Commands come in on a thread, messages go out on another, and the main thread drives the engine between them: it takes
the commands that wait, computes a step, hands the batch on, and sleeps when there is nothing to do. The process
belongs to its watcher: when the socket closes it ends, at the latest ORPHAN_SECONDS later, in the middle of a step if
need be. An exception of the engine is reported with its traceback before the process ends.

Started as ``python -m kvtop.engine.process FD`` with an inherited socket; the first frame carries the settings.
"""

from __future__ import annotations

import os
import queue
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Protocol

import msgspec

from kvtop.engine.control import AnyCommand, BatchMessage, Quit, Reply, Status
from kvtop.engine.events import Batch
from kvtop.engine.publisher import Publisher
from kvtop.engine.wire import decode_command, receive_frame
from kvtop.failure import Failure
from kvtop.settings import EngineSettings

ORPHAN_SECONDS = 2.0
FAREWELL_SECONDS = 1.0
"""How long the last messages may take to be delivered."""


class HostedEngine(Protocol):
    """What this process asks of an engine."""

    paused: bool

    @property
    def has_work(self) -> bool: ...

    @property
    def awaits_arrival(self) -> bool: ...

    def seconds_to_next_arrival(self) -> float | None: ...

    def apply(self, command: AnyCommand) -> Reply: ...

    def flush(self) -> Batch | None: ...

    def step(self) -> Batch | None: ...


Progress = Callable[[str, float, float], None]
"""Called while an engine is built: a line for the screen, how much is done, of how much (0: unknown)."""

BuildEngine = Callable[[EngineSettings, Progress], HostedEngine]


class Inbox:
    """Commands from the watcher, read by a thread. ``closed`` once the watcher is gone."""

    def __init__(self, connection: socket.socket) -> None:
        self.closed = False
        self._connection = connection
        self._commands: queue.SimpleQueue[AnyCommand] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="inbox", daemon=True).start()

    def take(self) -> list[AnyCommand]:
        """The commands that wait, without waiting."""
        commands = []
        while not self._commands.empty():
            commands.append(self._commands.get())
        return commands

    def wait(self, timeout_s: float | None) -> list[AnyCommand]:
        """The commands that wait; if none does, sleep until one comes, the watcher goes or the time is over."""
        try:
            first = self._commands.get(timeout=timeout_s)
        except queue.Empty:
            return []
        return [first, *self.take()]

    def _read(self) -> None:
        while (frame := receive_frame(self._connection)) is not None:
            self._commands.put(decode_command(frame))
        self.closed = True
        self._commands.put(Quit())  # wakes a sleeping engine
        orphaned = threading.Timer(ORPHAN_SECONDS, os._exit, [1])
        orphaned.daemon = True
        orphaned.start()


def drive(engine: HostedEngine, inbox: Inbox, publisher: Publisher) -> None:
    """Run the engine until the watcher says Quit or is gone."""
    status = Status(state="loading")
    commands = inbox.take()
    while not inbox.closed:
        for command in commands:
            if isinstance(command, Quit):
                publisher.publish(Reply(ticket=command.ticket))
                return
            publisher.publish(engine.apply(command))
        if commands and (news := engine.flush()) is not None:  # shown before a step that may take long
            publisher.publish(BatchMessage(batch=news))
        if (now := _status(engine)) != status:
            status = now
            publisher.publish(status)
        batch = engine.step()
        if batch is not None:
            publisher.publish(BatchMessage(batch=batch))
            commands = inbox.take()
        else:
            commands = inbox.wait(engine.seconds_to_next_arrival())


def _status(engine: HostedEngine) -> Status:
    """What it is about to do."""
    if engine.paused:
        return Status(state="paused")
    if engine.awaits_arrival:
        return Status(state="idle", detail="traffic to come")
    return Status(state="running" if engine.has_work else "idle")


def serve(connection: socket.socket, build: BuildEngine) -> int:
    """Build an engine as the first frame says and drive it to its end; the exit status."""
    first = receive_frame(connection)
    if first is None:
        return 1
    settings = msgspec.msgpack.decode(first, type=EngineSettings)
    publisher = Publisher(connection)
    inbox = Inbox(connection)

    def report(detail: str, done: float, total: float) -> None:
        publisher.publish(Status(state="loading", detail=detail, done=done, total=total))

    try:
        report("starting the engine", 0, 0)
        drive(build(settings, report), inbox, publisher)
    except Failure as failure:  # a line for a person; a traceback would say nothing more
        publisher.publish(Status(state="failed", detail=str(failure)))
        publisher.close(FAREWELL_SECONDS)
        return 1
    except Exception as error:
        whole = "".join(traceback.format_exception(error))
        publisher.publish(Status(state="failed", detail=str(error) or type(error).__name__, traceback=whole))
        publisher.close(FAREWELL_SECONDS)
        return 1
    publisher.publish(Status(state="stopped"))
    publisher.close(FAREWELL_SECONDS)
    return 0


def main(arguments: list[str]) -> int:
    """Entry of the process. ``arguments``: the number of the inherited socket."""
    from kvtop.engine.assembly import build_engine  # torch: only in this process, and only now

    return serve(socket.socket(fileno=int(arguments[0])), build_engine)


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(status)  # threads of a model's libraries must not hold the process back
