"""A sequence's state in a word, and what it waits for in a few. Plain functions of a SequenceView."""

from __future__ import annotations

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


def wait_reason(row: SequenceView) -> str:
    """Why it does not run, in a few words with the numbers."""
    wait = row.wait
    if wait is None:
        return "behind others in the queue" if row.status == "waiting" else ""
    words = {
        "seats": f"all {wait.running} seats are taken",
        "token_budget": "this step's token budget is spent",
        "blocks": f"needs {wait.needed:,}, {wait.free + wait.cached - wait.promised:,} to be had",
        "watermark": f"needs {wait.needed:,}; the watermark keeps {wait.watermark_blocks:,.0f}",
        "swapped_first": "swapped-out ones go first",
        "siblings": "its samples run together",
    }
    return words[wait.reason]
