"""Between a source and the panels: polls it, keeps the PoolView up to date, knows what the panels are to show.

The view can be frozen, or step back into the recorded past: the panels then read another PoolView, while the live one
goes on and stays exact. Commands go out here and their replies come back here. It keeps nothing that grows.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Protocol, runtime_checkable

import msgspec

from kvtop.app.breakpoints import Breakpoints
from kvtop.app.past import Past
from kvtop.engine.control import AnyCommand, BatchMessage, Inject, Pause, Reply, Status, TakeSnapshot
from kvtop.engine.events import Batch
from kvtop.engine.requests import Request
from kvtop.sources.history import History
from kvtop.sources.source import Source, ViewMessage
from kvtop.view.findings import FindingsLog
from kvtop.view.pool_view import PoolView

STALE_AFTER_S = 3.0
LONGEST_STEP_S = 60.0
"""A step may take that long before silence is taken for a bad sign."""
_SILENT_STATES = ("idle", "paused", "failed", "stopped", "loading")
"""States in which no news is no bad news."""


@runtime_checkable
class Rewinds(Protocol):
    """A source that can itself go back (a recording)."""

    @property
    def steps(self) -> tuple[int, int]: ...

    def back(self, steps: int = 1) -> None: ...

    def seek_step(self, step: int) -> None: ...


@runtime_checkable
class HasProcess(Protocol):
    """A source that knows whether its engine's process lives."""

    @property
    def alive(self) -> bool: ...


@runtime_checkable
class Hears(Protocol):
    """A source that is spoken to from elsewhere, also when there is nothing to tell: its silence means something."""

    def age_s(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Silence:
    seconds: float
    is_step: bool
    """The engine's process lives and may be at one long step; else it should be talking."""


class Feed:
    """``history`` is what was recorded of a running engine; None: there is no way back."""

    def __init__(
        self, source: Source, history: History | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.source = source
        self.tape = source if isinstance(source, Rewinds) else None
        """The source, where it is one that can itself go back. (Protocols are slow to ask, and frames ask often.)"""
        self._process = source if isinstance(source, HasProcess) else None
        self._hears = source if isinstance(source, Hears) else None
        self._history = history
        self._past: Past | None = None
        self.past_is_own = False
        """The past ends where this engine began; else it goes on with the one before."""
        self.breakpoints = Breakpoints()
        self.stopped_by = ""
        """Why the engine was paused from here, until somebody has been told."""
        self.late_errors: list[str] = []
        """What went wrong with commands that nobody waits for any more, until somebody has been told."""
        self.live = PoolView()
        self.findings = FindingsLog()
        """Of the live view, whatever is shown."""
        self.status = Status(state="loading", detail="starting the engine")
        self._clock = clock
        self._heard_s = clock()
        self._started_s = clock()
        self._frozen: PoolView | None = None
        self._tickets = count(1)
        self._waiting: dict[int, Callable[[Reply], None]] = {}
        self._asked_snapshot = False
        self.on_batch: Callable[[Batch], None] | None = None
        """Hears every batch once the live view has applied it."""
        self.held: list[Request] = []
        """Requests that were sent while the engine loads; they go out when it is ready."""
        self._held_answers: list[Callable[[Reply], None]] = []

    @property
    def view(self) -> PoolView:
        """What the panels show."""
        return self._frozen or self.live

    @property
    def paused(self) -> bool:
        """It stands until somebody says go on: the engine is paused, or the recording. (That an engine was paused while
        it was recorded says nothing of the recording.)"""
        return self.status.state == "paused" if self.tape is not None else self.live.paused

    @property
    def frozen(self) -> bool:
        return self._frozen is not None

    @property
    def silence(self) -> Silence | None:
        """No word where words are due; None: all is well. It looks at the clock: ask once and keep the answer."""
        heard = self._hears.age_s() if self._hears is not None else None
        seconds = self._clock() - self._heard_s if heard is None else heard
        if seconds < STALE_AFTER_S or self.status.state in _SILENT_STATES:
            return None
        alive = self._process is not None and self._process.alive
        return Silence(seconds, is_step=alive and seconds <= LONGEST_STEP_S)

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
                if self.on_batch is not None:
                    self.on_batch(message.batch)
                if self.breakpoints.active:
                    self._stop_at_breakpoint()
            elif isinstance(message, ViewMessage):
                self.live = message.view
            elif isinstance(message, Status):
                self.status = message
            elif (answer := self._waiting.pop(message.ticket, None)) is not None:
                answer(message)
            elif message.error:
                self.late_errors.append(message.error)
        if messages:
            self._heard_s = self._clock()
            self._fill_gap()
        if self.held and self.live.info is not None:
            self._let_go()
        return bool(messages)

    def _stop_at_breakpoint(self) -> None:
        came_true = self.breakpoints.check(self.live)
        if came_true and not self.paused:
            self.stopped_by = came_true
            self.send(Pause())

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

    def inject(self, requests: list[Request], answer: Callable[[Reply], None]) -> None:
        """Send requests, or hold them until the engine is ready. Raises ValueError when they can't be sent."""
        if self.live.info is not None:
            self.send(Inject(requests=requests), answer)
        else:
            self.held += requests
            self._held_answers.append(answer)

    def _let_go(self) -> None:
        """The engine is ready: send what was held for it."""
        assert self.live.info is not None
        requests, answers = self.held, self._held_answers
        if not self.live.info.chat_template:
            requests = [msgspec.structs.replace(request, chat=False) for request in requests]
        self.held, self._held_answers = [], []

        def answered(reply: Reply) -> None:
            for answer in answers:
                answer(reply)

        try:
            self.send(Inject(requests=requests), answered)
        except ValueError as error:
            answered(Reply(ticket=0, error=str(error)))

    def freeze(self) -> None:
        """Keep showing what is shown now."""
        self._frozen = copy.deepcopy(self.live)

    def thaw(self) -> None:
        """Show the present again."""
        self._frozen = self._past = None

    @property
    def in_past(self) -> bool:
        """What is shown was stepped back to."""
        return self._past is not None

    def go_back(self, until: str = "") -> bool:
        """Show a step earlier; with ``until`` the last one before in which an event of that type happened. False, and
        nothing changes, when nothing that early is recorded. Raises RecordingError for a damaged recording."""
        if self.tape is not None:
            self.send(Pause())
            self.tape.back()
            return True
        past = self._past or self._past_at(self.view.step)
        if past is None or past.at_start:
            return False
        past.back(until)
        view = past.view()
        if view.info is None:
            return False
        self._past, self._frozen = past, view
        return True

    def go_forward(self, until: str = "") -> None:
        """In the past: a step later, until the present is reached."""
        if self._past is not None:
            self._past.forward(until)
            if self._past.at_end:
                self.thaw()
            else:
                self._frozen = self._past.view()

    @property
    def steps(self) -> tuple[int, int]:
        """The first and the last step that can be gone to. A running engine is recorded up to a second ago."""
        if self.tape is not None:
            return self.tape.steps
        timeline = self._history.timeline() if self._history is not None else None
        return timeline.steps if timeline is not None and len(timeline) else (self.live.step, self.live.step)

    def go_to(self, step: int) -> None:
        """Show the end of a step that is within ``steps``. Raises RecordingError for a damaged recording."""
        if self.tape is not None:
            self.send(Pause())
            self.tape.seek_step(step)
        elif step >= self.live.step:
            self.thaw()
        elif (past := self._past_at(step)) is not None:
            self._past, self._frozen = past, past.view()

    def _past_at(self, step: int) -> Past | None:
        timeline = self._history.timeline() if self._history is not None else None
        if timeline is None or not len(timeline):
            return None
        return Past(timeline, step, timeline.last_session_first if self.past_is_own else timeline.first)

    def begin_again(self) -> None:
        """The source starts a new engine: its batches count from the start again."""
        self.live = PoolView()
        self.thaw()
        self._waiting.clear()
        self.status = Status(state="loading", detail="starting the engine again")
        self._heard_s = self._started_s = self._clock()
