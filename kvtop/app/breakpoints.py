"""Breakpoints: pause the engine when something comes true of the pool.

They are checked on this side, after each batch, so the engine may be a step or two further when the pause reaches it;
the message names the step, and the recorded past shows it exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvtop.engine import events as e
from kvtop.view.pool_view import PoolView
from kvtop.view.words import share


@dataclass(frozen=True, slots=True)
class FreeBelow:
    """Fewer blocks are to be had (free or cached) than this share of the pool. It fires again only after having been
    above."""

    share: float

    @property
    def words(self) -> str:
        return f"less than {self.share:.0%} of the pool can be had"

    def holds(self, view: PoolView) -> bool:
        return bool(view.blocks.num_blocks) and view.blocks.active > (1 - self.share) * view.blocks.num_blocks


@dataclass(frozen=True, slots=True)
class Preemption:
    """A sequence is preempted; 0: any."""

    seq: int
    name: str

    @property
    def words(self) -> str:
        return f"{self.name} is preempted" if self.seq else "a sequence is preempted"

    def holds(self, view: PoolView) -> bool:
        return any(isinstance(event, e.Preempted) and self.seq in (0, event.seq) for event in view.last_events)


@dataclass(frozen=True, slots=True)
class Written:
    """KV is written into a block, or it changes hands."""

    block: int
    shown: int
    """As the engine itself numbers it."""

    @property
    def words(self) -> str:
        return f"block {self.shown:,} is written or changes hands"

    def holds(self, view: PoolView) -> bool:
        blocks = view.blocks
        return self.block < blocks.num_blocks and view.step == max(
            int(blocks.written_step[self.block]), int(blocks.changed_step[self.block])
        )


Breakpoint = FreeBelow | Preemption | Written


class Breakpoints:
    """``check`` is called after every batch."""

    def __init__(self) -> None:
        self.active: list[Breakpoint] = []
        self._holding: set[Breakpoint] = set()
        self._checked_step = -1

    def toggle(self, point: Breakpoint, view: PoolView) -> bool:
        """Set it, or take it away when it is set; whether it is set now. What holds already counts the next time."""
        if point in self.active:
            self.active.remove(point)
            return False
        self.active.append(point)
        if point.holds(view):
            self._holding.add(point)
        return True

    def check(self, view: PoolView) -> str:
        """What came true with the last batch, in words; empty when nothing did."""
        now = {point for point in self.active if point.holds(view)}
        same_step = view.step == self._checked_step
        known = {point for point in self._holding if same_step or isinstance(point, FreeBelow)}
        fresh = [point for point in self.active if point in now and point not in known]
        self._holding, self._checked_step = now, view.step
        if not fresh:
            return ""
        free = share(view.blocks.num_blocks - view.blocks.active, view.blocks.num_blocks)
        return f"step {view.step:,}: {fresh[0].words} ({free} can be had)"
