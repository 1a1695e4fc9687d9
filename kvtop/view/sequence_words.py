"""A sequence's state in a word, and what it waits for now in a few. Plain functions of a SequenceView and,
where pool or queue decide, of the view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtop.view.sequence_view import SequenceView
from kvtop.view.turns import comes_next, head_of
from kvtop.view.wait_now import is_met, wait_now, wait_words_now

if TYPE_CHECKING:
    from kvtop.view.pool_view import PoolView


NEXT_STEP = "its turn comes with the next step"


def state_of(row: SequenceView) -> str:
    """``decode``, ``prefill 40%``, ``waits``, ``swapped``, or ``preempted`` for one that was thrown out."""
    if row.status == "running":
        if not row.in_prefill:
            return "decode"
        return f"prefill {100 * row.computed // max(1, row.tokens)}%"
    if row.status == "waiting" and row.preempt_mode is not None:
        return "preempted"
    return {"waiting": "waits", "swapped": "swapped", "finished": "ends"}[row.status]


def waits_for(view: PoolView, row: SequenceView) -> str:
    """Why it does not run, in a few words with the numbers."""
    return _out_of_turn(view, row) or (wait_words_now(view, row.wait) if row.wait is not None else "")


def waits_briefly(view: PoolView, row: SequenceView) -> str:
    """The same where there is little room: ``needs 7, 0 free``."""
    told = _out_of_turn(view, row)
    if told or row.wait is None:
        return "the next step" if told == NEXT_STEP else told
    wait = wait_now(view, row.wait)
    if is_met(view, row.wait):
        return "the next step"
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


def _out_of_turn(view: PoolView, row: SequenceView) -> str:
    """What is to be said of one that waits and is not the head (what it lacked as the head is past), or a head that
    was not looked at yet; else nothing."""
    head = head_of(view, row.status) if row.status in ("waiting", "swapped") else None
    if head is None:
        return ""
    if row is not head:
        return f"behind {head.name}"
    return NEXT_STEP if comes_next(view, row) else ""
