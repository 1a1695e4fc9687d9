"""Keys one after another: the next is routed when all that the last one brought about has happened.

Textual routes a key to the widget that has the focus when the key arrives, and acts on it later; of keys that come in
one write, those behind a Tab would go to the field before it. So a key waits here until the one before has passed its
widget and everything above it twice: once itself, once the messages it gave rise to. Nothing waits on anything else.
"""

from __future__ import annotations

import time
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
        """Counts deliveries; one that was given up on must not start the next when it ends after all."""
        self._busy = False
        self._since_s = 0.0
        self._met: Screen[object] | None = None
        """The screen that is known to be ready for keys."""

    async def take(self, event: Event) -> None:
        """Deliver ``event`` when its turn comes."""
        self._waiting.append(event)
        if not self._busy or time.monotonic() - self._since_s > LONGEST_WAIT_S:
            await self._next(self._turn)

    async def _next(self, turn: int) -> None:
        if turn != self._turn:
            return
        self._turn += 1
        self._busy, self._since_s = bool(self._waiting), time.monotonic()
        if not self._waiting:
            return
        screen = self._app.screen
        if screen is not self._met:  # it composes itself and sets its focus first
            self._met = screen
            self._after([screen, self._app])
            return
        target = self._app.focused or screen
        way = [*target.ancestors_with_self]
        await self._deliver(self._waiting.popleft())
        self._after([*way, *way])

    def _after(self, way: list[MessagePump]) -> None:
        """Go on when every pump of ``way`` has done what it has before it, in that order."""
        self._pass(way, self._turn)

    def _pass(self, way: list[MessagePump], turn: int) -> None:
        for at, pump in enumerate(way[:-1]):
            if pump.call_later(self._pass, way[at + 1 :], turn):
                return  # one that closes takes no more calls
        self._app.call_later(self._next, turn)
