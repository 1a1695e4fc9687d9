"""Back to the scene where a lesson was left: the scenes before are played again by themselves, on a new engine.

Where the engine runs, it is waited for; where it is stepped, it is stepped, one step at a time, so that it ends up
where the student had it. A task that takes more than that stays for the student: nothing is waited for for ever.
"""

from __future__ import annotations

from kvtop.lessons.player import Player
from kvtop.view.pool_view import PoolView

STALLED_TICKS = (25, 300)
"""Ticks without a step after which there is no use in waiting: with nobody to compute for, and with somebody."""


class CatchUp:
    """``target`` is the position to reach; it falls back to the player's where that cannot be done."""

    def __init__(self, target: int = 0) -> None:
        self.target = target
        self._still = 0
        """Ticks since the last step."""
        self._step = -1
        self._asked_at: int | None = None
        """The step at which the next one was asked for."""

    def scene_opened(self) -> None:
        """Commands are on their way: what the engine did before says nothing."""
        self._still, self._asked_at = 0, None

    def wants_step(self, player: Player, view: PoolView) -> bool:
        """Called at every tick until ``target`` is reached: moves the player on, or says that the engine is to step."""
        self._still = self._still + 1 if view.step == self._step else 0
        self._step = view.step
        if player.task_done:
            player.go_on()
        elif self._still > STALLED_TICKS[bool(view.sequences)]:
            self.target = player.position
        elif view.paused and player.is_stepped and self._asked_at != view.step:
            self._asked_at = view.step
            return True
        return False
