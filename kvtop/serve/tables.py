"""The true tables of this engine for watchers elsewhere: its own batches, in the form in which the exporter sends them.

A watcher that joins, or has missed something, is given the whole state by the engine itself, as a batch like any other:
those who have seen everything take its events and pass the state over.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from kvtop import __version__
from kvtop.engine.control import AnyCommand, TakeSnapshot
from kvtop.engine.events import Batch
from kvtop.exporter.outlet import Outlet, PutLater
from kvtop.exporter.wire import VERSION, Speaker


class TablesOutlet:
    """``send`` puts a command on its way to the engine, from any thread.

    Raises:
        zmq.ZMQError: the address cannot be bound.
    """

    def __init__(self, address: str, send: Callable[[AnyCommand], None]) -> None:
        self._send = send
        self._number = 0
        speaker = Speaker(
            version=VERSION,
            session=uuid.uuid4().hex,
            rank=0,
            server=f"kvtop {__version__}",
            dropped=0,
            spent_s=0.0,
        )
        self._outlet = Outlet(address, speaker, self._ask_for_whole)

    @property
    def address(self) -> str:
        return self._outlet.address

    def put(self, batch: Batch) -> None:
        """Send a batch to whoever watches, some time soon; never waits."""
        if batch.number <= self._number:
            self._outlet.begin_session(uuid.uuid4().hex)
        self._number = batch.number
        self._outlet.put(batch)

    def close(self) -> None:
        self._outlet.close()

    def _ask_for_whole(self) -> PutLater:
        self._send(TakeSnapshot())
        return "put later"
