"""A server as one that is watched: real HTTP and ZMQ sockets on loopback, and every fault at the test's command.

It tells the pages and KV events it is given (mostly recorded ones), keeps events for replay as vLLM does, and can hang,
refuse, die, come back, or forget messages on the way.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import zmq

END = (-1).to_bytes(8, "big", signed=True)


class FakeHttp:
    """``/metrics`` and whatever else is in ``pages``. ``status`` and ``hangs`` hold for every page. Connections are
    closed after an answer unless ``keep_alive``, so that ``down`` is felt at once."""

    def __init__(self, keep_alive: bool = False) -> None:
        self.keep_alive = keep_alive
        self.pages: dict[str, bytes] = {}
        self.status = 200
        self.hangs = False
        self.asked = 0
        self._released = threading.Event()
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self.up()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def set_page(self, text: str, path: str = "/metrics") -> None:
        self.pages[path] = text.encode()

    def set_json(self, path: str, value: Any) -> None:
        self.pages[path] = json.dumps(value).encode()

    def up(self) -> None:
        """Listen, on the same port as before."""
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                fake.asked += 1
                if fake.hangs:
                    fake._released.wait(20)
                    self.close_connection = True
                    return
                page = fake.pages.get(self.path)
                body = b"not found" if page is None else page
                self.send_response(404 if page is None else fake.status)
                self.send_header("Content-Length", str(len(body)))
                if not fake.keep_alive:
                    self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None: ...

        self._server = _QuietServer(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def down(self) -> None:
        """Refuse connections."""
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def close(self) -> None:
        self._released.set()
        self.down()


class _QuietServer(ThreadingHTTPServer):
    """Clients that leave in the middle are what tests are about, nothing to print."""

    allow_reuse_address = True
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None: ...


class FakeEvents:
    """A publisher of KV events with its replay socket, as vLLM's: ``publish`` numbers messages from ``number`` on."""

    def __init__(self, topic: bytes = b"kv", old_replay: bool = False) -> None:
        self.topic = topic
        self.number = 0
        self.kept: list[tuple[int, bytes]] = []
        self.replays = 0
        self._old_replay = old_replay
        self._context = zmq.Context()
        self._pub = self._context.socket(zmq.PUB)
        self._pub.set_hwm(100_000)  # as vLLM's
        self.port = self._pub.bind_to_random_port("tcp://127.0.0.1")
        self._router = self._context.socket(zmq.ROUTER)
        self.replay_port = self._router.bind_to_random_port("tcp://127.0.0.1")
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._replay, daemon=True)
        self._thread.start()

    @property
    def source(self) -> dict[str, Any]:
        """What ``/kv_event_sources`` says of it."""
        return {
            "enable_kv_cache_events": True,
            "publisher": "zmq",
            "endpoint": f"tcp://*:{self.port}",
            "replay_endpoint": f"tcp://*:{self.replay_port}",
            "topic": self.topic.decode(),
            "buffer_steps": 10_000,
        }

    def publish(self, payload: bytes, lost: bool = False) -> None:
        """Send the next message; ``lost``: it is numbered and kept, and never arrives."""
        self.kept.append((self.number, payload))
        if not lost:
            self._pub.send_multipart([self.topic, self.number.to_bytes(8, "big"), payload])
        self.number += 1

    def restart(self) -> None:
        """A new life: numbers begin at 0, nothing is kept."""
        self.number = 0
        self.kept = []

    def close(self) -> None:
        self._closing.set()
        self._thread.join(2)
        self._context.destroy(linger=0)

    def _replay(self) -> None:
        while not self._closing.is_set():
            if not self._router.poll(20):
                continue
            client, _, start = self._router.recv_multipart()
            self.replays += 1
            topic = [] if self._old_replay else [self.topic]
            for number, payload in list(self.kept):
                if number >= int.from_bytes(start, "big"):
                    self._router.send_multipart([client, b"", *topic, number.to_bytes(8, "big"), payload])
            end = [client, b"", END, b""] if self._old_replay else [client, b"", b"", END, b""]
            self._router.send_multipart(end)


@contextmanager
def fake_http(page: str = "") -> Iterator[FakeHttp]:
    server = FakeHttp()
    if page:
        server.set_page(page)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def fake_events(topic: bytes = b"kv", old_replay: bool = False) -> Iterator[FakeEvents]:
    events = FakeEvents(topic, old_replay)
    try:
        yield events
    finally:
        events.close()
