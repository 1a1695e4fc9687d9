"""Everything a served engine shows to the outside, put together: HTTP, metrics, KV events, true block tables.

It stands between a source and its clients and knows no more of the source than how to send a command; whoever owns the
source passes batches and words on (``hear_batch``, ``hear_word``). KV events and true tables go out on ZMQ sockets that
only tell: nobody can command the engine through them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import zmq

from kvtop.engine.control import AnyCommand, Reply, Status
from kvtop.engine.events import Batch, EngineInfo
from kvtop.failure import Failure
from kvtop.serve.address import Address, bind
from kvtop.serve.api import Api
from kvtop.serve.kv_publisher import HIGH_WATER_MARK, KEPT_BATCHES, TOPIC, KvPublisher
from kvtop.serve.limits import Gate, Limits
from kvtop.serve.link import EngineLink
from kvtop.serve.listener import Listener
from kvtop.serve.metrics import Metrics
from kvtop.serve.tables import TablesOutlet

LAST_WORD_SECONDS = 1.0
"""How long open calls may take to be told that the engine is gone."""


@dataclass(frozen=True, slots=True)
class FrontSettings:
    address: Address = field(default_factory=Address)
    watch_host: str = "127.0.0.1"
    """Where KV events and true tables are published."""
    watch_port: int = 0
    """Of KV events; their replay and the true tables have the next two. 0: any free ones."""
    api_key: str = ""
    """Empty: none is asked for."""
    model: str | None = None
    """What clients call the model; None: as the engine does."""
    limits: Limits = field(default_factory=Limits)


class Front:
    """``send`` puts a command on its way to the engine, from any thread.

    Raises:
        Failure: an address cannot be bound.
    """

    def __init__(self, settings: FrontSettings, send: Callable[[AnyCommand], None]) -> None:
        self.settings = settings
        bound, self.address = bind(settings.address)
        try:
            self._open_sockets(send)
        except zmq.ZMQError as error:
            bound.close()
            raise Failure(f"{settings.watch_host}: KV events cannot be published there: {error}") from None
        self._metrics = Metrics(settings.model)
        self.link = EngineLink(send, self._metrics.observe)
        self._gate = Gate(settings.limits)
        api = Api(
            self.link,
            self._metrics,
            self._gate,
            settings.limits,
            model=settings.model,
            api_key=settings.api_key,
            event_sources=self._event_sources(),
            table_sources={"0": {"endpoint": self._told(self._tables.address)}},
        )
        self._listener = Listener(api.app, bound, self.link.open)

    def _open_sockets(self, send: Callable[[AnyCommand], None]) -> None:
        host, first = self.settings.watch_host, self.settings.watch_port
        events, replay, tables = (
            f"tcp://{f'[{host}]' if ':' in host else host}:{first + place if first else 0}" for place in range(3)
        )
        self._kv_events = KvPublisher(events, replay)
        try:
            self._tables = TablesOutlet(tables, send)
        except zmq.ZMQError:
            self._kv_events.close()
            raise

    def start(self) -> None:
        """Take calls; until the engine is ready they are told that it loads."""
        self._listener.start()

    @property
    def info(self) -> EngineInfo | None:
        """Of the engine, once it answers calls."""
        return self.link.view.info if self.link.status.state not in ("loading", "failed", "stopped") else None

    @property
    def open_calls(self) -> int:
        return self._gate.open

    # --- from the source's reading thread -----------------------------------------------------------------------------

    def hear_batch(self, batch: Batch) -> None:
        self._kv_events.put(batch)
        self._tables.put(batch)
        self.link.hear_batch(batch)

    def hear_word(self, word: Reply | Status) -> None:
        self.link.hear_word(word)

    # --- the end ------------------------------------------------------------------------------------------------------

    def drain(self, seconds: float) -> None:
        """Take no new call; open ones may go on for ``seconds``, then ``close`` ends them. Returns at once."""
        self._gate.closed = True
        self._listener.drain(seconds)

    def ended(self, timeout_s: float) -> bool:
        """Wait at most so long; whether all calls have ended."""
        return self._listener.wait(timeout_s)

    def close(self) -> None:
        """End what is left: open calls are told so, and have a second to tell their clients."""
        if self._listener.running:
            self.link.hear_word(Status(state="stopped", detail="the server ends"))  # open calls end with that
            self.drain(0)
            self._listener.wait(LAST_WORD_SECONDS)
        self._kv_events.close()
        self._tables.close()

    def _event_sources(self) -> dict[str, Any]:
        """vLLM's answer to where KV events are published."""
        return {
            "0": {
                "enable_kv_cache_events": True,
                "publisher": "zmq",
                "endpoint": self._told(self._kv_events.endpoint),
                "replay_endpoint": self._told(self._kv_events.replay_endpoint),
                "buffer_steps": KEPT_BATCHES,
                "hwm": HIGH_WATER_MARK,
                "topic": TOPIC,
            }
        }

    def _told(self, endpoint: str) -> str:
        """An endpoint as clients are told it: where it is reached by the host that they asked, that host is left open,
        as vLLM's own addresses leave it."""
        watch = Address(self.settings.watch_host)
        same = watch.host == self.address.host or (watch.is_loopback and self.address.is_loopback)
        return f"tcp://*:{endpoint.rpartition(':')[2]}" if watch.is_wildcard or same else endpoint
