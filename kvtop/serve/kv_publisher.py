"""Publishes KV events on ZMQ the way vLLM does: topic, 8-byte number, payload; and says old ones again on request.

One thread owns both sockets. The engine's reader only appends to a queue; the newest KEPT_BATCHES payloads are kept for
the replay socket: a request is the 8-byte number to begin with, the answers end with number -1.
"""

from __future__ import annotations

import queue
import threading
from collections import deque

import msgspec
import zmq

from kvtop.engine.events import Batch
from kvtop.serve.kv_events import KvTranslator

TOPIC = "kv-events"
KEPT_BATCHES = 10_000
HIGH_WATER_MARK = 100_000
_END = (-1).to_bytes(8, "big", signed=True)
_POLL_MILLISECONDS = 20


class KvPublisher:
    """
    Raises:
        zmq.ZMQError: an address cannot be bound.
    """

    def __init__(self, endpoint: str, replay_endpoint: str) -> None:
        self._translator = KvTranslator()
        self._encode = msgspec.msgpack.Encoder().encode
        self._arrived: queue.SimpleQueue[Batch] = queue.SimpleQueue()
        self._kept: deque[tuple[bytes, bytes]] = deque(maxlen=KEPT_BATCHES)
        self._next = 0
        self._closing = threading.Event()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._live = self._context.socket(zmq.PUB)
        self._replay = self._context.socket(zmq.ROUTER)
        try:
            self._live.set_hwm(HIGH_WATER_MARK)
            self._live.bind(endpoint)
            self._replay.bind(replay_endpoint)
        except zmq.ZMQError:
            self._context.destroy(linger=0)
            raise
        self.endpoint = self._live.getsockopt_string(zmq.LAST_ENDPOINT)
        self.replay_endpoint = self._replay.getsockopt_string(zmq.LAST_ENDPOINT)
        self._thread = threading.Thread(target=self._publish_all, name="kv-publisher", daemon=True)
        self._thread.start()

    def put(self, batch: Batch) -> None:
        """Publish what a batch tells, some time soon; never waits."""
        self._arrived.put(batch)

    def close(self) -> None:
        self._closing.set()
        self._thread.join(1)

    def _publish_all(self) -> None:
        while not self._closing.is_set():
            try:
                batch = self._arrived.get(timeout=_POLL_MILLISECONDS / 1e3)
            except queue.Empty:
                pass
            else:
                self._publish(batch)
            while self._replay.poll(0):
                self._say_again(self._replay.recv_multipart())
        self._context.destroy(linger=0)

    def _publish(self, batch: Batch) -> None:
        told = self._translator.take(batch)
        if told is None:
            return
        number, payload = self._next.to_bytes(8, "big"), self._encode(told)
        self._next += 1
        self._kept.append((number, payload))
        self._live.send_multipart([TOPIC.encode(), number, payload])

    def _say_again(self, frames: list[bytes]) -> None:
        if len(frames) != 3 or len(frames[2]) != 8:
            return  # not a request of this form
        client, empty, start = frames
        for number, payload in self._kept:
            if number >= start:
                self._replay.send_multipart([client, empty, TOPIC.encode(), number, payload])
        self._replay.send_multipart([client, empty, b"", _END, b""])
