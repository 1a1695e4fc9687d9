"""Several lanes in lock step: the same traffic through each, a step of all at a time, until the last one ends."""

from __future__ import annotations

from collections.abc import Sequence

from kvtop.lab.lane import Lane


class SideBySide:
    """``step`` is the number of the step in which the lanes stand, from 1; a lane that has ended stays as it is."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.lanes = tuple(lanes)
        self.step = 1
        self.preempted_at: list[int] = []
        """Steps in which a lane preempted somebody."""
        self._preemptions = 0

    @property
    def ended(self) -> bool:
        return all(lane.ended for lane in self.lanes)

    @property
    def num_slots(self) -> int:
        """Of the largest pool: block sizes that do not divide it lose a few."""
        return max(lane.num_slots for lane in self.lanes)

    def advance(self) -> None:
        """One step of every lane that still runs."""
        for lane in self.lanes:
            if not lane.ended:
                lane.advance()
        if not self.ended:
            self.step += 1
        preemptions = sum(lane.preemptions for lane in self.lanes)
        if preemptions > self._preemptions:
            self._preemptions = preemptions
            self.preempted_at.append(self.step)
