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

from kvtop.attach.kv_hearing import Applied, Heard, KvHearing
from kvtop.attach.kv_sources import KvSource
from kvtop.attach.kv_stream import KvStream

CLOSE_SECONDS = 0.1
POLL_MILLISECONDS = 50
MAX_WAITING = 5_000
"""Batches that wait for ``poll``; beyond, the thread stops reading and ZMQ holds the rest."""
_END = b"\xff" * 8


class KvListener:
    """``start``, then ``poll``, then ``close``. ``on_heard`` is called from the thread with all that comes, before it
    is applied (a recorder listens there)."""

    def __init__(
        self,
        source: KvSource,
        clock: Callable[[], float] = time.monotonic,
        on_heard: Callable[[KvSource, Heard], None] | None = None,
    ) -> None:
        self.source = source
        self.started_s = clock()
        self._hearing = KvHearing(source)
        self._clock = clock
        self._on_heard = on_heard
        self._arrived: queue.Queue[Applied] = queue.Queue(MAX_WAITING)
        self._restart_why: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="kv-events", daemon=True)

    @property
    def stream(self) -> KvStream:
        return self._hearing.stream

    @property
    def unknown(self) -> dict[str, int]:
        """Events of kinds that are not known here, by kind (untrusted)."""
        return self._hearing.unknown

    @property
    def broken(self) -> int:
        """Messages that were no batch of events."""
        return self._hearing.broken

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

    def stop(self) -> None:
        """Begin to stop: of many, all first stop, and are then closed."""
        self._closing.set()

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
                    self._hear(Heard("restart", why=self._restart_why.get()))
                self._hand_on(self._hearing.tick(self._clock()))
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
                self._hear(Heard("live", int.from_bytes(frames[1], "big"), frames[2]))
            else:
                self._hear(Heard("odd"))

    def _take_replayed(self, socket: zmq.Socket[bytes]) -> None:
        while True:
            try:
                frames = socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if len(frames) < 3:
                self._hear(Heard("odd"))
                continue
            number, payload = frames[-2:]  # an older server sends no topic before them
            if number == _END:
                self._hear(Heard("end"))
            elif len(number) == 8:
                self._hear(Heard("replayed", int.from_bytes(number, "big"), payload))

    def _hear(self, heard: Heard) -> None:
        if self._on_heard is not None:
            self._on_heard(self.source, heard)
        self._hand_on(self._hearing.hear(heard, self._clock()))

    def _hand_on(self, steps: list[Applied]) -> None:
        for step in steps:
            while not self._closing.is_set():
                try:
                    self._arrived.put(step, timeout=0.1)
                    break
                except queue.Full:  # the caller polls again
                    continue
