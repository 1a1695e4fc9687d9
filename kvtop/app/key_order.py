"""Keys one after another: the next is routed when all that the last one brought about has happened.

Textual routes a key to the widget that has the focus when the key arrives, and acts on it later; of keys that come in
one write, those behind a Tab would go to the field before it. So a key waits here until the one before has passed its
widget and everything above it twice: once itself, once the messages it gave rise to. A widget may go before it has
handed the turn on (Textual drops what such a one had to do), or take long; so a clock hands it on too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from textual.app import App
from textual.events import Event
from textual.message_pump import MessagePump
from textual.screen import Screen

LONGEST_WAIT_S = 1.0
"""A key that takes longer holds the others up no more: quitting must always be possible."""


class KeyOrder:
    """``deliver`` routes a key, or a paste, by the focus there is now."""

    def __init__(self, app: App[None], deliver: Callable[[Event], Awaitable[None]]) -> None:
        self._app = app
        self._deliver = deliver
        self._waiting: deque[Event] = deque()
        self._turn = 0
        """Counts turns; a key that was given up on must not start the next when it ends after all."""
        self._clock: asyncio.TimerHandle | None = None
        """Ends the turn that is on, when nothing else does; None: it is nobody's turn."""
        self._met: Screen[object] | None = None
        """The screen that is known to be ready for keys."""

    @property
    def busy(self) -> bool:
        """A key is on its way, or more are waiting."""
        return self._clock is not None

    async def take(self, event: Event) -> None:
        """Deliver ``event`` when its turn comes."""
        self._waiting.append(event)
        if not self.busy:
            await self._next(self._turn)

    async def _next(self, turn: int) -> None:
        if turn != self._turn:
            return
        self._turn += 1
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        if not self._waiting:
            return
        self._clock = asyncio.get_running_loop().call_later(
            LONGEST_WAIT_S, self._app.call_later, self._next, self._turn
        )
        screen = self._app.screen
        if screen is not self._met:  # it composes itself and sets its focus first
            self._met = screen
            self._pass([screen, self._app], self._turn)
            return
        target = self._app.focused or screen
        way = [*target.ancestors_with_self]
        turn = self._turn
        await self._deliver(self._waiting.popleft())
        self._pass([*way, *way], turn)

    def _pass(self, way: list[MessagePump], turn: int) -> None:
        """Go on when every pump of ``way`` has done what it has before it, in that order."""
        for at, pump in enumerate(way[:-1]):
            if pump.call_later(self._pass, way[at + 1 :], turn):
                return  # one that closes takes no more calls
        self._app.call_later(self._next, turn)
