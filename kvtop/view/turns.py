"""Whose turn comes next among those that do not run, as the scheduler takes them.

Two queues, each by priority, then by arrival of the request (so that a preempted sequence stands before all that never
ran): swapped-out sequences come back before anything waiting is admitted. Only the head of a queue is ever looked at:
what another one was told to lack, when it was the head, is past.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtop.engine.events import SequenceStatus
from kvtop.view.sequence_view import SequenceView

if TYPE_CHECKING:
    from kvtop.view.pool_view import PoolView


def head_of(view: PoolView, status: SequenceStatus) -> SequenceView | None:
    """Who stands first among the ``waiting``, or the ``swapped``; None when nobody is there."""
    return min(view.with_status(status), key=lambda row: row.queue_order, default=None)


def head_of_queue(view: PoolView) -> SequenceView | None:
    """Whose turn comes next of all; None when nobody waits."""
    return head_of(view, "swapped") or head_of(view, "waiting")


def comes_next(view: PoolView, head: SequenceView) -> bool:
    """The head of a queue has only just joined it and was not looked at yet. (One that has stood there for steps, and
    of which nothing was told, is a watched server's: those do not say what they wait for.)"""
    return head.wait is None and view.step - head.queued_step <= 1


def reading_order(row: SequenceView) -> tuple[int, ...]:
    """Running ones by admission, then swapped-out and waiting ones as they stand in the queue."""
    if row.status == "running":
        return 0, row.admitted_order, row.index
    return {"swapped": 1, "waiting": 2, "finished": 3}[row.status], *row.queue_order
