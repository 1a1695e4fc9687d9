"""Holds a scheduler between two steps: paused, or let go a step at a time.

Three threads meet here: the scheduler asks whether it may schedule, a controller's connection pauses and steps, and a
clock sees that the controller is gone. Nobody waits longer than HOLD_SECONDS, so that a server that is held still takes
in requests, ends aborted ones, answers, and can be shut down.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from kvtop.engine.events import AnyEvent

HOLD_SECONDS = 0.05
"""How long a held scheduler waits at most before its server looks around."""
LOST_SECONDS = 10.0
"""A controller that has been silent for so long is gone; what it held runs on."""


class Hold:
    """``told`` is called with True when the scheduler is held from now on, with False when it runs on."""

    def __init__(self, told: Callable[[bool], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.held = False
        self._told = told
        self._clock = clock
        self._changed = threading.Condition()
        self._steps = 0
        """Steps that may be taken while held."""
        self._counted = False
        """The step that was let go last is one of them."""
        self._until = ""
        """An event of this type ends them."""
        self._heard_s = clock()

    def heard(self) -> None:
        """A controller lives."""
        self._heard_s = self._clock()

    def pause(self) -> None:
        self._set(held=True, steps=0, until="")

    def resume(self) -> None:
        self._set(held=False, steps=0, until="")

    def step(self, steps: int, until: str) -> None:
        """Let ``steps`` steps go, at most until an event of the type ``until`` is seen, then hold."""
        self._set(held=True, steps=steps, until=until)

    def _set(self, held: bool, steps: int, until: str) -> None:
        with self._changed:
            turned = held != self.held
            self.held, self._steps, self._until, self._counted = held, steps, until, False
            self._changed.notify_all()
        if turned:
            self._told(held)

    def may_schedule(self) -> bool:
        """Whether a step may be taken now; when not, a moment has passed."""
        with self._changed:
            self._counted = False
            if self.held and not self._steps:
                self._changed.wait(HOLD_SECONDS)
            if not self.held:
                return True
            if self._steps:
                self._steps -= 1
                self._counted = True
                return True
            return False

    def give_back(self) -> None:
        """The step that was let go found nothing to compute: it does not count."""
        with self._changed:
            if self.held and self._counted:
                self._steps += 1

    def saw(self, events: Iterable[AnyEvent]) -> None:
        """What a step has brought about."""
        if self._until and any(event.__struct_config__.tag == self._until for event in events):
            with self._changed:
                self._steps, self._until = 0, ""

    def release_if_lost(self) -> bool:
        """Run on when the controller is gone; whether it was."""
        if not self.held or self._clock() - self._heard_s < LOST_SECONDS:
            return False
        self.resume()
        return True
