"""Between a source and the panels: polls it, keeps the PoolView up to date, knows what the panels are to show.

The view can be frozen: the panels then read a copy, while the live view goes on and stays exact. Commands go out
here and their replies come back here. It keeps nothing that grows.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from itertools import count

import msgspec

from kvtop.engine.control import AnyCommand, BatchMessage, Reply, Status, TakeSnapshot
from kvtop.sources.source import Source, ViewMessage
from kvtop.view.pool_view import PoolView

STALE_AFTER_S = 3.0
_SILENT_STATES = ("idle", "paused", "failed", "stopped", "loading")
"""States in which no news is no bad news."""


class Feed:
    def __init__(self, source: Source, clock: Callable[[], float] = time.monotonic) -> None:
        self.source = source
        self.live = PoolView()
        self.status = Status(state="loading", detail="starting the engine")
        self._clock = clock
        self._heard_s = clock()
        self._started_s = clock()
        self._frozen: PoolView | None = None
        self._tickets = count(1)
        self._waiting: dict[int, Callable[[Reply], None]] = {}
        self._asked_snapshot = False

    @property
    def view(self) -> PoolView:
        """What the panels show."""
        return self._frozen or self.live

    @property
    def frozen(self) -> bool:
        return self._frozen is not None

    @property
    def stale_s(self) -> float | None:
        """Seconds without a word from an engine that should be talking; None: all is well."""
        silent = self._clock() - self._heard_s
        return silent if silent >= STALE_AFTER_S and self.status.state not in _SILENT_STATES else None

    @property
    def loading_s(self) -> float:
        """Seconds since the engine was started, for as long as it loads."""
        return self._clock() - self._started_s

    def poll(self) -> bool:
        """Take over what has arrived; True when there was anything."""
        messages = self.source.poll()
        for message in messages:
            if isinstance(message, BatchMessage):
                self.live.apply(message.batch)
            elif isinstance(message, ViewMessage):
                self.live = message.view
            elif isinstance(message, Status):
                self.status = message
            elif (answer := self._waiting.pop(message.ticket, None)) is not None:
                answer(message)
        if messages:
            self._heard_s = self._clock()
            self._fill_gap()
        return bool(messages)

    def _fill_gap(self) -> None:
        """A batch was missed: ask once for a snapshot, until one has come."""
        missing = self.live.incomplete_since is not None
        if missing and not self._asked_snapshot:
            self.send(TakeSnapshot())
        self._asked_snapshot = missing

    def send(self, command: AnyCommand, answer: Callable[[Reply], None] | None = None) -> None:
        """Send a command; ``answer`` gets its Reply from a later ``poll``. Raises ValueError when it can't be sent."""
        ticket = next(self._tickets)
        if answer is not None:
            self._waiting[ticket] = answer
        self.source.send(msgspec.structs.replace(command, ticket=ticket))

    def freeze(self) -> None:
        """Keep showing what is shown now."""
        self._frozen = copy.deepcopy(self.live)

    def thaw(self) -> None:
        self._frozen = None

    def begin_again(self) -> None:
        """The source starts a new engine: its batches count from the start again."""
        self.live = PoolView()
        self._frozen = None
        self._waiting.clear()
        self.status = Status(state="loading", detail="starting the engine again")
        self._heard_s = self._started_s = self._clock()
