"""A sequence's state in a word, and what it waits for in a few. Plain functions of a SequenceView."""

from __future__ import annotations

from kvtop.view.describe import wait_words
from kvtop.view.sequence_view import SequenceView


def state_of(row: SequenceView) -> str:
    """``decode``, ``prefill 40%``, ``waits``, ``swapped``, or ``preempted`` for one that was thrown out."""
    if row.status == "running":
        if not row.in_prefill:
            return "decode"
        return f"prefill {100 * row.computed // max(1, row.tokens)}%"
    if row.status == "waiting" and row.preempt_mode is not None:
        return "preempted"
    return {"waiting": "waits", "swapped": "swapped", "finished": "ends"}[row.status]


def waits_for(row: SequenceView, is_head: bool = False) -> str:
    """Why it does not run, in a few words with the numbers. ``is_head``: nobody waits before it."""
    if row.wait is None and row.status == "waiting":
        return "its turn comes with the next step" if is_head else "behind others in the queue"
    if row.wait is None:
        return ""
    return wait_words(row.wait)
