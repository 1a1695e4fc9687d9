"""Sends batches to whoever subscribes, from a thread of its own: the server's scheduler only appends to a list.

The list is bounded. When it is full all that waits is dropped whole, and the whole state goes out next, with a word of
what was dropped. Nobody subscribed: nothing is encoded. The socket binds to loopback unless told otherwise.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Literal

import msgspec
import zmq

from kvtop.engine.events import Batch
from kvtop.exporter.wire import TOPIC, Speaker, encode_batch, encode_speaker

MAX_WAITING = 256
"""Batches."""
POLL_SECONDS = 0.02
HEARTBEAT_SECONDS = 1.0
"""After so much silence a word without a batch is sent."""
SNAPSHOT_SECONDS = 0.2
"""The least time between two whole states."""

PutLater = Literal["put later"]


class Outlet:
    """``whole`` makes a batch with a snapshot of all that was put so far, or None when there is none; it is called from
    the sending thread. "put later" says that a batch with a snapshot will be put like any other.

    Raises:
        zmq.ZMQError: the address cannot be bound.
    """

    def __init__(self, address: str, speaker: Speaker, whole: Callable[[], Batch | PutLater | None]) -> None:
        self.dropped = 0
        self.spent_s = 0.0
        """What the exporter has cost the scheduler so far; told with every batch."""
        self.subscribers = 0
        self._speaker = speaker
        self._whole = whole
        self._waiting: deque[Batch] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._wants_whole = False
        self._whole_s = 0.0
        self._sent_s = 0.0
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.XPUB)
        try:
            self._socket.setsockopt(zmq.XPUB_VERBOSER, 1)
            self._socket.setsockopt(zmq.LINGER, 0)
            self._socket.bind(address)
        except zmq.ZMQError:
            self._context.destroy(linger=0)
            raise
        self.address = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._thread = threading.Thread(target=self._send_all, name="kvtop-exporter", daemon=True)
        self._thread.start()

    def begin_session(self, session: str) -> None:
        """What is put from here on is of another life of the server."""
        with self._changed:
            self._speaker = msgspec.structs.replace(self._speaker, session=session)

    def put(self, batch: Batch) -> None:
        """Send a batch, some time soon; never waits."""
        with self._changed:
            if len(self._waiting) >= MAX_WAITING:
                self.dropped += len(self._waiting)
                self._waiting.clear()
                self._wants_whole = True
            self._waiting.append(batch)
            self._changed.notify()

    def close(self) -> None:
        """Send nothing more."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(1)

    def _send_all(self) -> None:
        while self._wait():
            self._count_subscribers()
            whole = self._whole_if_due()
            with self._changed:  # all that was put before the whole state was made is among these
                batches = list(self._waiting)
                self._waiting.clear()
            if not self.subscribers:
                continue
            for batch in batches:
                if whole is not None and batch.number > whole.number:
                    self._send(whole)
                    whole = None
                self._send(batch)
            if whole is not None:
                self._send(whole)
            if time.monotonic() - self._sent_s >= HEARTBEAT_SECONDS:
                self._speak(b"")
        self._context.destroy(linger=0)

    def _wait(self) -> bool:
        """Until there is something to send, or a moment at most; False: it was closed."""
        with self._changed:
            if not self._waiting and not self._closing:
                self._changed.wait(POLL_SECONDS)
            return not self._closing

    def _count_subscribers(self) -> None:
        while self._socket.poll(0):
            message = self._socket.recv()
            if message[:1] == b"\x01":
                self.subscribers += 1
                self._wants_whole = True
            elif self.subscribers:
                self.subscribers -= 1

    def _whole_if_due(self) -> Batch | None:
        now_s = time.monotonic()
        if not self._wants_whole or now_s - self._whole_s < SNAPSHOT_SECONDS:
            return None
        self._wants_whole = False  # from here on, who comes or what is dropped asks for another one
        self._whole_s = now_s
        whole = self._whole()
        if whole is None:
            self._wants_whole = True
        return None if whole == "put later" else whole

    def _send(self, batch: Batch) -> None:
        self._speak(encode_batch(batch))

    def _speak(self, payload: bytes) -> None:
        self._sent_s = time.monotonic()
        speaker = msgspec.structs.replace(self._speaker, dropped=self.dropped, spent_s=self.spent_s)
        self._socket.send_multipart([TOPIC, encode_speaker(speaker), payload])
