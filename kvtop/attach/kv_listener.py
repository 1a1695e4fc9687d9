"""Listens to the KV events of one publisher in a background thread: subscription, replay, order.

The caller polls; nothing waits. What the thread found out stands in ``stream``, to be read at any time. A payload that
is no batch is counted and passed over: it ends nothing.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

import zmq

from kvtop.attach.kv_events import AllBlocksCleared, BadBatch, KvDecoder, KvEvent
from kvtop.attach.kv_sources import KvSource
from kvtop.attach.kv_stream import KvStream, Ordered, Restarted, Step

CLOSE_SECONDS = 0.1
POLL_MILLISECONDS = 50
MAX_WAITING = 5_000
"""Batches that wait for ``poll``; beyond, the thread stops reading and ZMQ holds the rest."""
_END = b"\xff" * 8

Applied = Restarted | tuple[int, list[KvEvent]]
"""What ``poll`` gives: a restart, or the events of one batch with their rank."""


class KvListener:
    """``start``, then ``poll``, then ``close``. ``unknown`` and ``broken`` count what could not be understood."""

    def __init__(self, source: KvSource, clock: Callable[[], float] = time.monotonic) -> None:
        self.source = source
        self.stream = KvStream(can_replay=source.replay_endpoint is not None)
        self.unknown: dict[str, int] = {}
        """Events of kinds that are not known here, by kind (untrusted)."""
        self.broken = 0
        """Messages that were no batch of events."""
        self.started_s = clock()
        self._clock = clock
        self._decoder = KvDecoder()
        self._arrived: queue.Queue[Applied] = queue.Queue(MAX_WAITING)
        self._restart_why: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="kv-events", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def poll(self, most: int = 1_000) -> list[Applied]:
        """What has come, in order; never waits."""
        taken: list[Applied] = []
        while len(taken) < most:
            try:
                taken.append(self._arrived.get_nowait())
            except queue.Empty:
                break
        return taken

    def server_restarted(self, why: str) -> None:
        """Somebody else saw the server begin anew (its metrics do): what came before is void."""
        self._restart_why.put(why)

    def silent_s(self) -> float:
        """Seconds since the last message, or since listening began."""
        return self._clock() - (self.stream.last_live_s or self.started_s)

    def close(self) -> None:
        """Stop listening. Closing twice is closing once."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)

    def _listen(self) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        try:
            live = context.socket(zmq.SUB)
            live.set_hwm(100_000)
            live.setsockopt(zmq.SUBSCRIBE, self.source.topic.encode())
            live.connect(self.source.endpoint)
            replay = context.socket(zmq.DEALER)
            if self.source.replay_endpoint:
                replay.connect(self.source.replay_endpoint)
            poller = zmq.Poller()
            poller.register(live, zmq.POLLIN)
            poller.register(replay, zmq.POLLIN)
            while not self._closing.is_set():
                ready = dict(poller.poll(POLL_MILLISECONDS))
                if replay in ready:
                    self._take_replayed(replay)
                if live in ready:
                    self._take_live(live)
                while not self._restart_why.empty():
                    self._hand_on(self.stream.restart(self._restart_why.get(), self._clock()))
                self._hand_on(self.stream.tick(self._clock()))
                start = self.stream.ask_replay()
                if start is not None:
                    replay.send_multipart([b"", start.to_bytes(8, "big")])
        finally:
            context.destroy(linger=0)

    def _take_live(self, socket: zmq.Socket[bytes]) -> None:
        for _ in range(1_000):  # then look at the rest of the world again
            try:
                frames = socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if len(frames) == 3 and len(frames[1]) == 8:
                number = int.from_bytes(frames[1], "big")
                self._hand_on(self.stream.take_live(number, frames[2], self._clock()))
            else:
                self.broken += 1

    def _take_replayed(self, socket: zmq.Socket[bytes]) -> None:
        while True:
            try:
                frames = socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if len(frames) < 3:
                self.broken += 1
                continue
            number, payload = frames[-2:]  # an older server sends no topic before them
            if number == _END:
                self._hand_on(self.stream.end_replay())
            elif len(number) == 8:
                self._hand_on(self.stream.take_replayed(int.from_bytes(number, "big"), payload))

    def _hand_on(self, steps: list[Step]) -> None:
        for step in steps:
            if isinstance(step, Ordered):
                applied = self._decode(step)
                if applied is None:
                    continue
            else:
                applied = step
            while not self._closing.is_set():
                try:
                    self._arrived.put(applied, timeout=0.1)
                    break
                except queue.Full:  # the caller polls again
                    continue

    def _decode(self, message: Ordered) -> Applied | None:
        try:
            batch = self._decoder.decode(message.payload)
        except BadBatch:
            self.broken += 1
            return None
        if any(type(event) is AllBlocksCleared for event in batch.events):
            self.stream.all_cleared()
        for kind, count in batch.unknown.items():
            if len(self.unknown) < 100 or kind in self.unknown:
                self.unknown[kind] = self.unknown.get(kind, 0) + count
        return (self.source.rank if batch.rank is None else batch.rank, batch.events)
