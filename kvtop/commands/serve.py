"""Serve a model on the paged engine behind an OpenAI-compatible HTTP interface.

  kvtop serve                                    the default model at http://127.0.0.1:8000/v1
  kvtop serve --num-blocks 200 --port 9000       a small pool, another port
  kvtop serve --sim                              no model: the real scheduler and pool, made-up words
  KVTOP_API_KEY=secret kvtop serve --host 0.0.0.0   for other machines, with a key

  kvtop attach http://127.0.0.1:8000             in a second terminal: metrics, KV events, the true block tables

Answers /v1/completions, /v1/chat/completions, /v1/models, /health, /metrics (vLLM's names), /kv_event_sources and
/openapi.json; what clients may ask is in docs/serve.md. SIGTERM and Ctrl-C end it: no new call is taken, open ones
may go on for --drain seconds, a second signal cuts them off. Ends with 0 after SIGTERM, 130 after Ctrl-C, 1 when the
engine failed.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING

from kvtop.commands.engine_flags import add_engine_flags, say_warnings, settings_from, typed
from kvtop.commands.pool_output import say_pool
from kvtop.commands.serve_flags import add_serve_flags, exposure, front_settings
from kvtop.engine.control import Status
from kvtop.extra import require
from kvtop.failure import Failure, WrongUsage
from kvtop.parsing import integer
from kvtop.settings import SETTINGS

if TYPE_CHECKING:
    from kvtop.engine.events import EngineInfo
    from kvtop.serve.front import Front
    from kvtop.sources.embedded import EmbeddedSource
    from kvtop.sources.source import Message

_OF_A_MODEL = ("model", "device", "dtype", "model_dir", "model_source")
_LOOK_SECONDS = 0.1
_INTERRUPTED = 130


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: 127.0.0.1)")
    parser.add_argument(
        "--port", metavar="N", type=typed(integer(0, 65_535)), default=8000, help="port; 0: a free one (default: 8000)"
    )
    parser.add_argument("--sim", action="store_true", help="no model: words and step times are made up")
    parser.add_argument(
        "--drain",
        metavar="SECONDS",
        type=typed(integer(0)),
        default=30,
        help="how long open calls may go on after SIGTERM (default: 30)",
    )
    add_serve_flags(parser)
    add_engine_flags(parser)


def run(args: argparse.Namespace) -> int:
    given = [setting.flag for setting in SETTINGS if setting.name in _OF_A_MODEL and hasattr(args, setting.name)]
    if args.sim and given:
        raise WrongUsage(f"--sim runs no model; leave out {given[0]}")
    settings = settings_from(args)
    say_warnings(settings)
    if not args.sim:
        from kvtop.models.resolve import kind_of_model

        require("kvtop serve", "torch", "transformers")
        kind_of_model(settings["model"])
    from kvtop.serve.address import Address

    wanted = front_settings(args, Address(args.host, args.port))
    for sentence in exposure(wanted):
        print(f"kvtop: warning: {sentence}", file=sys.stderr)
    from kvtop.serve.front import Front
    from kvtop.sources.embedded import ENGINE_COMMAND, SIMULATOR_COMMAND, EmbeddedSource

    _log_to_stderr()
    front = Front(wanted, lambda command: source.send(command))
    source = EmbeddedSource(
        settings.engine, SIMULATOR_COMMAND if args.sim else ENGINE_COMMAND, front.hear_batch, front.hear_word
    )
    return Serving(front, source, args.drain).run()


def _log_to_stderr() -> None:
    import logging

    from kvtop.serve.listener import log_to

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("kvtop: %(message)s"))
    log_to(handler)


class Serving:
    """One run of the command: loads, serves, drains, ends."""

    def __init__(self, front: Front, source: EmbeddedSource, drain_s: int) -> None:
        self._front = front
        self._source = source
        self._drain_s = drain_s
        self._stop = threading.Event()
        self._signals: list[int] = []

    def run(self) -> int:
        with _signals_to(self._take_signal):
            try:
                self._front.start()
                self._source.start()
                info = self._wait_until_ready()
                if info is not None:
                    self._say_where(info)
                    self._serve()
                return self._end()
            finally:
                self._front.close()
                self._source.close()

    def _wait_until_ready(self) -> EngineInfo | None:
        """The engine that then answers; None: somebody asked to end before."""
        from kvtop.commands.bars import stage_bar

        with stage_bar() as report:
            while not self._stop.wait(_LOOK_SECONDS):
                for status in self._statuses():
                    if status.state == "loading":
                        report(status.detail, status.done, status.total)
                if (info := self._front.info) is not None:
                    return info
        return None

    def _serve(self) -> None:
        while not self._stop.wait(_LOOK_SECONDS):
            self._statuses()

    def _statuses(self) -> list[Status]:
        """What the engine said of its state since the last time; answers and batches go to the front by themselves.

        Raises:
            Failure: it has failed.
        """
        messages: list[Message] = self._source.poll(100_000)
        statuses = [message for message in messages if isinstance(message, Status)]
        for status in statuses:
            if status.state in ("failed", "stopped"):
                self._front.drain(1)  # open calls are told, and new ones, until that has been done
                self._front.ended(2)
                failure = Failure(f"the engine has {status.state}: {status.detail}")
                failure.add_note(status.traceback)  # seen under --debug
                raise failure
        return statuses

    def _say_where(self, info: EngineInfo) -> None:
        say_pool(info)
        url = self._front.address.url
        pool = f"{info.num_blocks:,} blocks of {info.block_size} tokens"
        print(f"kvtop: serving {info.model}, {pool} at {url}/v1", file=sys.stderr)
        print(f"kvtop: watch it with: kvtop attach {url}", file=sys.stderr, flush=True)

    def _end(self) -> int:
        """Let open calls go on for a while; those that are left then are told when the front is closed."""
        open_calls = self._front.open_calls
        if open_calls:
            print(f"kvtop: ending; {open_calls} calls may go on for {self._drain_s} s", file=sys.stderr, flush=True)
        self._front.drain(self._drain_s)
        end_s = time.monotonic() + self._drain_s
        while not self._front.ended(_LOOK_SECONDS):
            self._statuses()
            if len(self._signals) > 1 or time.monotonic() >= end_s:
                break
        return _INTERRUPTED if self._signals[0] == signal.SIGINT else 0

    def _take_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals.append(number)
        self._stop.set()


@contextlib.contextmanager
def _signals_to(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
