"""A sequence's state in a word, what it waits for in a few, and where it stands in a list. Plain functions of a
SequenceView."""

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


def waits_briefly(row: SequenceView, head: str) -> str:
    """The same where there is little room: ``needs 7, 0 free``. ``head``: the name of the one nobody waits before."""
    wait = row.wait
    if wait is None:
        return ("the next step" if row.name == head else f"behind {head}") if row.status == "waiting" else ""
    match wait.reason:
        case "seats":
            return f"no seat: {wait.running:,} run"
        case "blocks" if wait.free >= wait.needed and not wait.promised:
            return f"needs {wait.needed:,} in one piece"
        case "blocks":
            had = f"{wait.free + wait.cached:,} to be had" if wait.cached else f"{wait.free:,} free"
            return f"needs {wait.needed:,}, {had}"
        case "watermark":
            return f"needs {wait.needed:,} over watermark"
        case "token_budget":
            return "no tokens left in step"
        case "swapped_first":
            return "behind swapped ones"
        case "siblings":
            return "a sibling computes"
        case "preemption_bound":
            return "one such runs already"


def reading_order(row: SequenceView) -> tuple[int, ...]:
    """Running ones by admission, then swapped-out and waiting ones as they stand in the queue."""
    if row.status == "running":
        return 0, row.admitted_order, row.index
    return {"swapped": 1, "waiting": 2, "finished": 3}[row.status], row.priority, row.seq
