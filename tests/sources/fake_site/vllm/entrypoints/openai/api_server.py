"""A server that is started, spoken to and watched like a vLLM: its scheduler is the stand-in of the exporter's tests.

``--model M --port P ...``. The model's name chooses a fault: ``crash`` ends while it loads, ``mute`` has no exporter,
``stubborn`` does not end when it is asked to. It starts a daemon in a session of its own, as Ray does, and writes the
daemon's number into its log.
"""

from __future__ import annotations

import argparse
import json
import queue
import signal
import subprocess
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kvtop.exporter import plugin
from tests.attach.stand_in_vllm import Request
from vllm.v1.core.sched.scheduler import Scheduler

STEP_SECONDS = 0.005


class Engine:
    """The engine core's loop, in a thread: takes requests in, steps, hands tokens out to the streams."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.scheduler = Scheduler(num_blocks, block_size)
        self.news: queue.SimpleQueue[Request | str] = queue.SimpleQueue()
        self.streams: dict[str, queue.SimpleQueue[int | None]] = {}
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        token = 0
        while True:
            while not self.news.empty():
                news = self.news.get()
                if isinstance(news, Request):
                    self.scheduler.add(news)
                elif news in self.scheduler.requests:
                    self.scheduler.abort(news)
            if self.scheduler.requests:
                before = dict(self.scheduler.requests)
                lengths = {name: len(request._all_token_ids) for name, request in before.items()}
                token += 1
                self.scheduler.update_from_output(self.scheduler.schedule(), token)
                for name, request in before.items():
                    for new in request._all_token_ids[lengths[name] :]:
                        self.streams[name].put(new)
                    if name not in self.scheduler.requests:
                        self.streams[name].put(None)
            time.sleep(STEP_SECONDS)


def handler_of(engine: Engine, name: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.page({"data": [{"id": name}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if "max_tokens" not in body:
                self.page({"count": len(words_of(body))})
                return
            if body["max_tokens"] > 500:
                self.page({"error": {"message": "max_tokens is too large"}}, status=400)
                return
            kind = "chatcmpl-{}-{}" if "messages" in body else "cmpl-{}-0-{}"
            request_id = kind.format(self.headers["X-Request-Id"], uuid.uuid4().hex[:8])
            stream = engine.streams[request_id] = queue.SimpleQueue()
            engine.news.put(Request(request_id, words_of(body), body["max_tokens"]))
            self.send_response(200)
            self.end_headers()
            try:
                while (token := self.next_of(stream)) is not None:
                    text = f"w{token} "
                    said = {"delta": {"content": text}} if "messages" in body else {"text": text}
                    chunk = {"choices": [{"index": 0, "token_ids": [token], **said}]}
                    self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
                self.wfile.write(b"data: [DONE]\n\n")
            except OSError:
                engine.news.put(request_id)

        def next_of(self, stream: queue.SimpleQueue[int | None]) -> int | None:
            while True:
                try:
                    return stream.get(timeout=0.05)
                except queue.Empty:
                    self.wfile.write(b": does somebody listen?\n\n")

        def page(self, value: Any, status: int = 200) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(value).encode())

        def log_message(self, *args: Any) -> None: ...

    return Handler


def words_of(body: dict[str, Any]) -> list[int]:
    prompt = body["messages"][0]["content"] if "messages" in body else body["prompt"]
    return [sum(word.encode()) for word in prompt.split()] if isinstance(prompt, str) else list(prompt)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--port", type=int)
    parser.add_argument("--served-model-name")
    parser.add_argument("--num-gpu-blocks-override", type=int, default=40)
    parser.add_argument("--block-size", type=int, default=4)
    args, others = parser.parse_known_args()
    print(f"(APIServer pid=1) INFO 11-29 16:33:02 [api.py:1] \x1b[32mothers {others}\x1b[0m", flush=True)
    time.sleep(0.1)
    print("(Worker pid=2) \rLoading shards:   0% |\rLoading shards:  50% Completed", flush=True)
    time.sleep(0.1)
    if args.model.endswith("crash"):
        print("(EngineCore pid=3) ERROR 11-29 16:33:02 [core.py:1] out of \x07memory", flush=True)
        sys.exit(3)
    daemon = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    print(f"daemon {daemon.pid}", flush=True)
    if args.model.endswith("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if not args.model.endswith("mute"):
        plugin.register()
    engine = Engine(args.num_gpu_blocks_override, args.block_size)
    ThreadingHTTPServer(("127.0.0.1", args.port), handler_of(engine, args.served_model_name)).serve_forever(0.02)


if __name__ == "__main__":
    main()
