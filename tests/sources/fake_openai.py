"""A server with an OpenAI endpoint, of the few pages that the client asks for; each stream is under the test's control.

``gate`` is taken once a token, so that a test lets tokens out one by one; open it for good with ``run_on``.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class FakeOpenAI:
    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        """Path and body of each POST."""
        self.ids: list[str | None] = []
        """X-Request-Id of each POST."""
        self.keys: list[str | None] = []
        self.words = ["Pa", "ging", " is", " fine"]
        self.refuses = ""
        """Not empty: every request is refused with it."""
        self.raw: bytes | None = None
        """Sent in place of a stream."""
        self.gone: list[str] = []
        """Ids of requests whose stream was closed before its end."""
        self.offers_reset = True
        self._gate = threading.Semaphore(0)
        self._runs_on = threading.Event()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def do_GET(self) -> None:
                self._page(200, {"data": [{"id": "some-model"}]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
                fake.asked.append((self.path, body))
                fake.ids.append(self.headers.get("X-Request-Id"))
                fake.keys.append(self.headers.get("Authorization"))
                if self.path == "/tokenize":
                    self._page(200, {"count": 7, "tokens": []})
                elif self.path == "/reset_prefix_cache":
                    self._page(200 if fake.offers_reset else 404, {})
                elif fake.refuses:
                    self._page(400, {"error": {"message": fake.refuses}})
                else:
                    self._stream(body)

            def _page(self, status: int, value: Any) -> None:
                page = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)

            def _stream(self, body: dict[str, Any]) -> None:
                self.send_response(200)
                self.end_headers()
                if fake.raw is not None:
                    self.wfile.write(fake.raw)
                    return
                try:
                    for word in fake.words:
                        for index in range(body.get("n", 1)):
                            fake._take(self.wfile)
                            said = {"delta": {"content": word}} if "messages" in body else {"text": word}
                            chunk = {"choices": [{"index": index, "token_ids": [1], **said}]}
                            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
                            self.wfile.flush()
                    self.wfile.write(b"data: [DONE]\n\n")
                except OSError:
                    fake.gone.append(self.headers["X-Request-Id"])

            def log_message(self, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def let_out(self, tokens: int) -> None:
        self._gate.release(tokens)

    def run_on(self) -> None:
        self._runs_on.set()

    def _take(self, stream: Any) -> None:
        """Wait for the next token's turn; a comment now and then shows whether somebody still listens."""
        while not self._runs_on.is_set() and not self._gate.acquire(timeout=0.02):
            stream.write(b": still here\n\n")
            stream.flush()

    def down(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def fake_openai() -> Iterator[FakeOpenAI]:
    fake = FakeOpenAI()
    try:
        yield fake
    finally:
        fake.run_on()
        fake.down()
