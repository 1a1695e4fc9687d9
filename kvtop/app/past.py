"""Where in the recorded past the view stands, and how it steps to and fro there. The engine knows nothing of it.

A position counts batches (see ``kvtop.sources.timeline``); a step may be told in several, so steps are taken whole.
"""

from __future__ import annotations

from kvtop.engine.events import Batch
from kvtop.sources.timeline import Timeline
from kvtop.view.pool_view import PoolView


class Past:
    """Begins at the end of ``step``; goes no further back than to position ``first``."""

    def __init__(self, timeline: Timeline, step: int, first: int) -> None:
        self._timeline = timeline
        self._first = first
        self._position = max(first, timeline.position_after_step(step))

    @property
    def at_start(self) -> bool:
        return self._position <= self._first

    @property
    def at_end(self) -> bool:
        return self._position >= self._timeline.end

    def view(self) -> PoolView:
        return self._timeline.view_at(self._position)

    def back(self, until: str = "") -> None:
        """A step back; with ``until`` to the last step before this one in which an event of that type happened."""
        self._back_one_step()
        while until and not self.at_start and not _holds(self._step_batches(), until):
            self._back_one_step()

    def forward(self, until: str = "") -> None:
        """A step forward; with ``until`` to the next one in which an event of that type happened."""
        self._forward_one_step()
        while until and not self.at_end and not _holds(self._step_batches(), until):
            self._forward_one_step()

    def _back_one_step(self) -> None:
        if not self.at_start:
            here = self._timeline.batch(self._position - 1).step
            while not self.at_start and self._timeline.batch(self._position - 1).step == here:
                self._position -= 1

    def _forward_one_step(self) -> None:
        if not self.at_end:
            here = self._timeline.batch(self._position).step
            while not self.at_end and self._timeline.batch(self._position).step == here:
                self._position += 1

    def _step_batches(self) -> list[Batch]:
        """The batches of the step that led here."""
        batches: list[Batch] = []
        position = self._position
        while position > self._first:
            batch = self._timeline.batch(position - 1)
            if batches and batch.step != batches[-1].step:
                break
            batches.append(batch)
            position -= 1
        return batches


def _holds(batches: list[Batch], kind: str) -> bool:
    return any(event.__struct_config__.tag == kind for batch in batches for event in batch.events)
