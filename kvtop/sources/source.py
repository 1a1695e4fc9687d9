"""What every source of batches offers the app, whatever stands behind it.

The app polls; nothing calls it back. A source keeps no more than a bounded number of messages for a reader that does
not poll: batches that found no room are dropped whole, which the reader sees by their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kvtop.engine.control import AnyCommand, BatchMessage, Reply, Status
from kvtop.view.pool_view import PoolView


@dataclass(frozen=True, slots=True)
class ViewMessage:
    """The reader's view is to be replaced by this one: a recording was wound to another place."""

    view: PoolView


Message = Reply | Status | BatchMessage | ViewMessage


class Source(Protocol):
    """``start`` once, then ``poll`` and ``send`` from one thread, then ``close``."""

    def start(self) -> None:
        """Begin; returns at once. What comes of it is told by Status messages."""
        ...

    def poll(self, max_messages: int = 1000) -> list[Message]:
        """Messages that have arrived, oldest first; never waits."""
        ...

    def send(self, command: AnyCommand) -> None:
        """Send a command; never waits. Its Reply, with the command's ticket, comes with a later ``poll``.

        Raises:
            ValueError: the command cannot be sent as it is; the message says why.
        """
        ...

    def restart(self) -> None:
        """Begin again from nothing: batch numbers start anew, messages not polled yet are gone."""
        ...

    def close(self) -> None:
        """End what was started; nothing is left running. Closing twice is closing once."""
        ...
