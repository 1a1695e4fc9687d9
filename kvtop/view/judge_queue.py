"""Rules about the queue: its head waits too long, or waits for a seat beside a pool that is half empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvtop.engine.events import Admitted, Preempted, Resumed, Waits
from kvtop.view.finding import Case, Rule
from kvtop.view.sequence_view import SequenceView
from kvtop.view.series import BIN_SECONDS, Column
from kvtop.view.turns import head_of_queue
from kvtop.view.wait_now import wait_words_now
from kvtop.view.words import count, duration, share

if TYPE_CHECKING:
    from kvtop.view.pool_view import PoolView

STARVED_SECONDS = 30.0
IDLE_POOL_SECONDS = 10.0

_WHAT_HELPS = {
    "seats": "raise max_num_seqs, or wait for one that runs to end",
    "token_budget": "raise max_num_batched_tokens: decoding ones use up every step's tokens",
    "blocks": "give the pool more memory (--kv-memory), or give it a smaller priority number so that it is first for "
    "what is freed",
    "watermark": "lower the watermark, or give the pool more memory (--kv-memory)",
    "swapped_first": "swapped-out sequences come back first: lower max_num_seqs so that fewer are swapped out",
    "siblings": "nothing: it will share what a sibling computes",
    "preemption_bound": "lower max_num_seqs: several sequences were preempted as often as the bound allows",
}


def head_since(view: PoolView, head: SequenceView) -> float | None:
    """Wall time since when ``head`` has been the head of the queue, as far as the log reaches back; None when it is
    empty."""
    since = None
    for entry in reversed(view.log.entries):
        event = entry.event
        if isinstance(event, Waits) and event.seq == head.seq:
            since = entry.wall_s
        elif isinstance(event, Waits | Admitted | Resumed) or (isinstance(event, Preempted) and event.seq == head.seq):
            return entry.wall_s if since is None else since  # before that, another was the head, or it ran
    return view.log.entries[0].wall_s if view.log.entries else None


def head_starves(view: PoolView, now_s: float, held: bool) -> Case | None:
    """The head of the queue has stood there for long, and all behind it with it, the engine not being paused."""
    head = head_of_queue(view)
    since = head_since(view, head) if head is not None else None
    if head is None or head.wait is None or since is None:
        return None
    stood_s = view.pauses.outside(since, now_s)
    if stood_s < STARVED_SECONDS:
        return None
    behind = len(view.with_status("waiting")) + len(view.with_status("swapped")) - 1
    return Case(
        "problem",
        f"{head.name} starves at the head of the queue",
        f"it has stood there {duration(stood_s)}: {wait_words_now(view, head.wait)}; "
        f"{count(behind, 'sequence')} behind it",
        _WHAT_HELPS[head.wait.reason],
        head.seq,
    )


def seats_bind(view: PoolView, now_s: float, held: bool) -> Case | None:
    """Requests wait for a seat though the pool has been half empty for a while."""
    head = head_of_queue(view)
    running = len(view.with_status("running"))
    if head is None or head.wait is None or head.wait.reason != "seats" or not running:
        return None
    blocks = view.blocks
    recent = view.series.over_time(Column.ACTIVE, now_s, IDLE_POOL_SECONDS, int(IDLE_POOL_SECONDS / BIN_SECONDS))
    if np.isnan(recent).any() or recent.max() > (0.6 if held else 0.5) * blocks.num_blocks:
        return None
    most = float(recent.max())
    seats = int(0.9 * running * blocks.num_blocks / most)
    return Case(
        "warning",
        "max_num_seqs keeps the pool half empty",
        f"waiting for a seat: {len(view.with_status('waiting')):,}, running: {running:,}; at most "
        f"{share(most, blocks.num_blocks)} of the pool was active in the last {duration(IDLE_POOL_SECONDS)}",
        f"raise max_num_seqs to about {seats:,}",
        head.seq,
    )


RULES = (Rule("starved", head_starves), Rule("seats", seats_bind))
