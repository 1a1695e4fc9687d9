"""Sends what the engine says to whoever watches, from a thread of its own, so that the engine never waits for a reader.

Replies and statuses are always delivered. Batches are not: when a reader lags by MAX_BATCHES, all that wait are dropped
whole, since the reader must ask for a snapshot anyway and the freshest state is the one worth having. It sees the
gap in the batch numbers.
"""

from __future__ import annotations

import socket
import threading
from collections import deque

from kvtop.engine.control import AnyMessage, BatchMessage
from kvtop.engine.wire import encode, send_frame

MAX_BATCHES = 256


class Publisher:
    """``dropped`` counts batches that were not delivered."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._waiting: deque[AnyMessage] = deque()
        self._batches = 0
        self._changed = threading.Condition()
        self._closed = False
        self.dropped = 0
        self._thread = threading.Thread(target=self._send, name="publisher", daemon=True)
        self._thread.start()

    def publish(self, message: AnyMessage) -> None:
        """Queue a message; never blocks on the reader."""
        with self._changed:
            if isinstance(message, BatchMessage):
                if self._batches >= MAX_BATCHES:
                    self._waiting = deque(m for m in self._waiting if not isinstance(m, BatchMessage))
                    self.dropped += self._batches
                    self._batches = 0
                self._batches += 1
            self._waiting.append(message)
            self._changed.notify()

    def close(self, timeout_s: float) -> None:
        """Deliver what waits, for at most ``timeout_s`` seconds, then send nothing more."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout_s)

    def _send(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if self._closed:
                        return
                    self._changed.wait()
                message = self._waiting.popleft()
                self._batches -= isinstance(message, BatchMessage)
            try:
                send_frame(self._connection, encode(message))
            except OSError:  # the reader is gone; the end of the command stream ends the process
                return
