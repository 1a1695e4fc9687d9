"""A server of somebody else's at full depth: its exporter's stream, and the few commands that its HTTP endpoint takes.

What comes of a command is seen in the stream, as with an engine of our own. Its scheduler takes no other commands than
pause and step, and those only where it was started with KVTOP_CONTROL=1, by this user and on this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from kvtop.engine.control import Abort, AnyCommand, ClearCache, Inject, Measure, Reply
from kvtop.sources.exported import ExportedSource
from kvtop.sources.source import Message


class Traffic(Protocol):
    """Who carries requests to the server."""

    @property
    def sent(self) -> Iterable[str]:
        """Ids of the requests that were sent from here."""
        ...

    def send(self, command: AnyCommand, answer: Callable[[Reply], None]) -> None: ...


class WatchedSource:
    """``tables`` is started and closed here, ``traffic`` is its owner's."""

    def __init__(self, tables: ExportedSource, traffic: Traffic) -> None:
        self.tables = tables
        self._traffic = traffic
        self._replies: list[Message] = []

    def start(self) -> None:
        self.tables.start()

    def poll(self, max_messages: int = 1000) -> list[Message]:
        replies, self._replies = self._replies, []
        return replies + self.tables.poll(max_messages)

    def send(self, command: AnyCommand) -> None:
        if isinstance(command, Abort):
            command = msgspec.structs.replace(command, request_id=self._own_id(command.request_id))
        if isinstance(command, Inject | Abort | Measure | ClearCache):
            ticket = command.ticket
            self._traffic.send(
                command, lambda reply: self._replies.append(msgspec.structs.replace(reply, ticket=ticket))
            )
        else:
            self.tables.send(command)

    def restart(self) -> None:
        self.tables.restart()

    def close(self) -> None:
        self.tables.close()

    def age_s(self) -> float | None:
        """Seconds since the exporter's last word; None before the first one."""
        return self.tables.age_s()

    def _own_id(self, request_id: str) -> str:
        """What we called a request that the server calls ``cmpl-NAME-0-…``; as it is when it is nobody's from here."""
        bare = request_id.removeprefix("chat").removeprefix("cmpl-")
        return next((own for own in self._traffic.sent if bare == own or bare.startswith(f"{own}-")), request_id)
