"""A vLLM server with our exporter inside, as a source of batches: its true block tables, as if the engine were ours.

One thread listens. A batch that was missed is asked for by subscribing again, which brings the whole state; another
session of the exporter is another server life, and begins with an empty view. The server is watched; it may be paused
and stepped where it runs on this machine, for this user, and was started so.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import msgspec
import zmq

from kvtop.engine.control import AnyCommand, BatchMessage, Pause, Reply, Resume, Status, Step, TakeSnapshot
from kvtop.engine.events import Batch
from kvtop.exporter.wire import TOPIC, VERSION, Speaker, decode_batch, decode_speaker
from kvtop.sources.controller import Controller
from kvtop.sources.embedded import MessageBuffer
from kvtop.sources.source import Message, ViewMessage
from kvtop.view.clean import clean_line
from kvtop.view.pool_view import PoolView

SILENT_SECONDS = 3.5
"""The exporter speaks once a second: so much silence is a server that is gone."""
POLL_MILLISECONDS = 50
CLOSE_SECONDS = 0.1


class ExportedSource:
    """``on_batch`` is called from the listening thread with every batch (a recorder listens there)."""

    def __init__(self, endpoint: str, on_batch: Callable[[Batch], None] | None = None) -> None:
        self.endpoint = endpoint
        self.speaker: Speaker | None = None
        """Who spoke last; None before the first word."""
        self.broken = 0
        """Messages that could not be read."""
        self._on_batch = on_batch
        self._messages = MessageBuffer()
        self._heard_s: float | None = None
        self._subscribe_again = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._controller: Controller | None = None

    def start(self) -> None:
        self._closing = threading.Event()
        self._messages.put(Status(state="loading", detail=f"waiting for an exporter at {self.endpoint}"), 0)
        self._thread = threading.Thread(target=self._listen, args=(self._closing,), name="exported", daemon=True)
        self._thread.start()

    def poll(self, max_messages: int = 1000) -> list[Message]:
        replies = self._controller.poll() if self._controller is not None else []
        return [*replies, *self._messages.take(max_messages)]

    def send(self, command: AnyCommand) -> None:
        if isinstance(command, TakeSnapshot):
            self._subscribe_again.set()
            self._messages.put(Reply(ticket=command.ticket), 0)
        elif isinstance(command, Pause | Resume | Step) and self.speaker is not None:
            if self._controller is None or self._controller.session != self.speaker.session:
                self._let_go()
                self._controller = Controller(self.endpoint, self.speaker.session)
            self._controller.send(command)
        else:
            name = type(command).__name__.lower()
            error = f"{name}: this server is only watched; commands to its scheduler cannot be sent from here"
            self._messages.put(Reply(ticket=command.ticket, error=error), 0)

    def restart(self) -> None:
        self.close()
        self._messages = MessageBuffer()
        self.speaker = None
        self.start()

    def close(self) -> None:
        self._let_go()
        self._closing.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def _let_go(self) -> None:
        """Whatever was held from here runs on."""
        if self._controller is not None:
            self._controller.close()
            self._controller = None

    def age_s(self) -> float | None:
        """Seconds since the last word; None before the first one."""
        return None if self._heard_s is None else time.monotonic() - self._heard_s

    def _listen(self, closing: threading.Event) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        socket = context.socket(zmq.SUB)
        socket.setsockopt(zmq.SUBSCRIBE, TOPIC)
        gone = False
        try:
            socket.connect(self.endpoint)
            while not closing.is_set():
                if self._subscribe_again.is_set():
                    self._subscribe_again.clear()
                    socket.setsockopt(zmq.UNSUBSCRIBE, TOPIC)
                    socket.setsockopt(zmq.SUBSCRIBE, TOPIC)
                if socket.poll(POLL_MILLISECONDS):
                    self._hear(socket.recv_multipart())
                    if gone:
                        gone = False
                        self._messages.put(Status(state="running", detail="the exporter speaks again"), 0)
                elif not gone and (self.age_s() or 0.0) > SILENT_SECONDS:
                    gone = True
                    detail = f"no word from the exporter for {SILENT_SECONDS:.0f} s; what is shown is old"
                    self._messages.put(Status(state="failed", detail=detail), 0)
        except zmq.ZMQError as error:
            self._messages.put(Status(state="failed", detail=f"{self.endpoint}: {error}"), 0)
        finally:
            context.destroy(linger=0)

    def _hear(self, frames: list[bytes]) -> None:
        try:
            _, said, payload = frames
            speaker = decode_speaker(said)
            batch = decode_batch(payload) if payload else None
        except (ValueError, msgspec.MsgspecError):
            self.broken += 1
            return
        if speaker.version != VERSION:
            self.broken += 1
            if self.broken == 1:
                detail = f"the exporter speaks version {speaker.version}, this kvtop understands {VERSION}"
                self._messages.put(Status(state="failed", detail=detail), 0)
            return
        before, self.speaker = self.speaker, speaker
        self._heard_s = time.monotonic()
        if before is None:
            where = f"{clean_line(speaker.server, 40)}, rank {speaker.rank}"
            self._messages.put(Status(state="running", detail=f"true tables of {where}"), 0)
        elif before.session != speaker.session:
            self._messages.put(ViewMessage(PoolView()), 0)
            self._messages.put(Status(state="running", detail="the server began anew; its old state is gone"), 0)
        if batch is not None:
            if self._on_batch is not None:
                self._on_batch(batch)
            self._messages.put(BatchMessage(batch=batch), len(payload))
