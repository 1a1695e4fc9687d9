"""Rules about the pool itself: more is admitted than fits, it is full, one request holds most of it, swap space is
full, somebody is thrown out again and again. What they suggest is computed from what requests really took."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from kvtop.engine.events import Preempted
from kvtop.view import figures
from kvtop.view.finding import Case, Rule
from kvtop.view.series import BIN_SECONDS, Column
from kvtop.view.turns import head_of_queue
from kvtop.view.words import count, duration, share, size

if TYPE_CHECKING:
    from kvtop.view.pool_view import PoolView

LEAST_SEEN_SECONDS = 15.0
"""A rate is no rate before that."""
STEADY_PER_MINUTE, CALM_PER_MINUTE = 2.0, 0.5
MANY_PREEMPTIONS, MANY_SECONDS, LEAST_MANY_SECONDS = 3, 15.0, 6.0
"""So many in so short a time are a rate that needs no longer look, if they are spread over it."""
FULL_SECONDS = 5.0
ENDED_LOOKED_AT = 50
OFTEN = 5
"""Preemptions of one sequence."""


def admission_exceeds_memory(view: PoolView, now_s: float, held: bool) -> Case | None:
    """Preemptions go on and on: more is admitted than can grow to its end."""
    thrown = view.series.gained(Column.PREEMPTIONS, now_s, figures.PREEMPTION_SECONDS)
    if thrown is None:
        return None
    per_minute = 60 * thrown[0] / thrown[1]
    if per_minute < (CALM_PER_MINUTE if held else STEADY_PER_MINUTE):
        return None
    lately = view.series.gained(Column.PREEMPTIONS, now_s, thrown[1] / 2)
    steady = lately is not None and 0 < lately[0] < thrown[0]  # some in both halves: more than one bad moment
    if not held and not _plainly_many(view, now_s) and (not steady or thrown[1] < LEAST_SEEN_SECONDS):
        return None
    return Case(
        "problem",
        "admission exceeds memory",
        f"{per_minute:.1f} preemptions/min over the last {duration(thrown[1])}{_price(view, now_s)}",
        _admit_less(view),
    )


def _plainly_many(view: PoolView, now_s: float) -> bool:
    """Many preemptions lately, some of them in the first and some in the last third of that time."""
    lately = view.series.gained(Column.PREEMPTIONS, now_s, MANY_SECONDS)
    if lately is None or lately[0] < MANY_PREEMPTIONS or lately[1] < LEAST_MANY_SECONDS:
        return False
    last = view.series.gained(Column.PREEMPTIONS, now_s, lately[1] / 3)
    last_two = view.series.gained(Column.PREEMPTIONS, now_s, 2 * lately[1] / 3)
    return last is not None and last_two is not None and last[0] > 0 and last_two[0] < lately[0]


def _price(view: PoolView, now_s: float) -> str:
    """What the preemptions cost, over the same time."""
    window = figures.PREEMPTION_SECONDS
    again = view.series.gained(Column.RECOMPUTED, now_s, window)
    computed = view.series.gained(Column.COMPUTED, now_s, window)
    made = view.series.gained(Column.GENERATED, now_s, window)
    moved = view.series.gained(Column.SWAPPED, now_s, window)
    words = ""
    if again and computed and made and again[0]:
        prefill = max(again[0], computed[0] - made[0])  # a decode step computes the one token before the one it makes
        words += f", {share(again[0], prefill)} of prefill is recompute"
    if moved and moved[0]:
        words += f", {count(moved[0], 'block')} swapped out"
    return words


def _admit_less(view: PoolView) -> str:
    """The two ways to admit less, with values that would have kept everything that ran."""
    assert view.info is not None
    seats, reserve = seats_that_fit(view), watermark_that_fits(view)
    if seats is None or reserve is None:
        return "lower max_num_seqs, or keep a watermark; or give the pool more memory (--kv-memory)"
    now = float(view.settings.get("watermark", view.info.watermark))
    lower = f"lower max_num_seqs to about {seats:,}"
    if reserve > now:
        return f"{lower}, or keep a watermark of {100 * reserve:.0f}%; or give the pool more memory (--kv-memory)"
    return f"{lower}, or give the pool more memory (--kv-memory)"


def blocks_at_end(view: PoolView) -> float | None:
    """Blocks a sequence holds at its end, on average: of those that ended lately, else of what the running ones may
    grow to. Blocks that several hold are counted by their part. None when nothing is known."""
    size_of_block = view.block_size
    ended = [e for e in list(view.ended)[-ENDED_LOOKED_AT:] if e.reasons[0] in ("stop", "length")]
    running = view.with_status("running")
    tables = sum(len(s.table) for s in running)
    if not tables:
        return None
    if ended:
        tokens = [e.prompt_tokens + e.generated / len(e.reasons) for e in ended]
    else:
        tokens = [float(s.prompt_tokens + s.max_tokens) for s in running]
    unshared = view.blocks.active / tables
    return float(np.mean([math.ceil(t / size_of_block) for t in tokens])) * min(1.0, unshared)


def seats_that_fit(view: PoolView) -> int | None:
    """As many sequences as could all stand at their end at once; below what runs now."""
    at_end = blocks_at_end(view)
    running = len(view.with_status("running"))
    if at_end is None or running < 2:
        return None
    return max(1, min(int(view.blocks.num_blocks / at_end), running - 1))


def watermark_that_fits(view: PoolView) -> float | None:
    """The share of the pool that the running ones may still grow by, half of them ending before they do."""
    at_end = blocks_at_end(view)
    running = view.with_status("running")
    if at_end is None or not view.blocks.num_blocks:
        return None
    held = view.blocks.active / len(running)
    growth = max(0.0, at_end - held) * len(running) / 2
    return min(0.3, max(0.02, math.ceil(100 * growth / view.blocks.num_blocks) / 100))


def pool_full(view: PoolView, now_s: float, held: bool) -> Case | None:
    """All blocks are held, none can be evicted, and somebody waits for one."""
    blocks = view.blocks
    head = head_of_queue(view)
    if head is None or head.wait is None or head.wait.reason not in ("blocks", "watermark"):
        return None
    level = 0.93 if held else 0.97
    recent = view.series.over_time(Column.ACTIVE, now_s, FULL_SECONDS, int(FULL_SECONDS / BIN_SECONDS))
    if np.isnan(recent).any() or (recent < level * blocks.num_blocks).any():
        return None
    waiting = len(view.with_status("waiting")) + len(view.with_status("swapped"))
    return Case(
        "warning",
        "the pool is full and nothing can be evicted",
        f"{blocks.active:,} of {count(blocks.num_blocks, 'block')} active ({share(blocks.active, blocks.num_blocks)}), "
        f"{blocks.cached:,} cached; {waiting:,} wait, the first of them for {count(head.wait.needed, 'block')}",
        "more would run at once in a larger pool (--kv-memory, --num-blocks) or with shorter requests; that they wait "
        "costs no work, only time",
        head.seq,
    )


def full_of_cache(view: PoolView, now_s: float, held: bool) -> Case | None:
    """No block is free, but a good part is cache that gives way: nothing to worry about."""
    blocks = view.blocks
    if not blocks.num_blocks or blocks.free > (0.05 if held else 0.01) * blocks.num_blocks:
        return None
    if blocks.cached < (0.05 if held else 0.25) * blocks.num_blocks:
        return None
    return Case(
        "note",
        f"usage reads {share(blocks.active + blocks.cached, blocks.num_blocks)} and is harmless",
        f"{blocks.free:,} free, but {count(blocks.cached, 'cached block')} "
        f"({share(blocks.cached, blocks.num_blocks)}) nobody holds: they go as soon as somebody needs room",
        "nothing: judge the pool by its active blocks, "
        f"{share(blocks.active, blocks.num_blocks)} now, not by what is not free",
    )


def one_holds_most(view: PoolView, now_s: float, held: bool) -> Case | None:
    """One request holds most of the pool while others wait."""
    held_by: dict[str, set[int]] = {}
    for sequence in view.sequences.values():
        held_by.setdefault(sequence.request_id, set()).update(sequence.table)
    waiting = len(view.with_status("waiting")) + len(view.with_status("swapped"))
    if not waiting or not held_by:
        return None
    request_id, blocks = max(held_by.items(), key=lambda entry: len(entry[1]))
    if len(blocks) < (0.4 if held else 0.5) * view.blocks.num_blocks:
        return None
    first = min((s for s in view.sequences.values() if s.request_id == request_id), key=lambda s: s.seq)
    return Case(
        "warning",
        f"{view.name_of(first.seq)} holds most of the pool",
        f"{count(len(blocks), 'block')} of {view.blocks.num_blocks:,} ({share(len(blocks), view.blocks.num_blocks)}), "
        f"{first.tokens:,} tokens; {waiting:,} wait",
        "bound what one request may take (--max-model-len), preempt it, or give the others a smaller priority number",
        first.seq,
    )


def swap_full(view: PoolView, now_s: float, held: bool) -> Case | None:
    """Preemption by swap was asked for and fell back to recompute, because the swap space had too little room."""
    recent = [
        entry.event
        for entry in view.log.entries
        if isinstance(entry.event, Preempted) and entry.wall_s >= now_s - figures.PREEMPTION_SECONDS
    ]
    fallen = [event for event in recent if event.swap_full]
    if not fallen:
        return None
    blocks = view.swap.num_blocks
    taken = f"{view.swap.active:,} of {count(blocks, 'swap block')} taken" if blocks else "it has no blocks"
    largest = max(event.held for event in fallen)
    assert view.info is not None
    bytes_needed = (view.swap.active + largest) * view.info.block_size * view.info.kv_bytes_per_token
    return Case(
        "warning",
        "the swap space is full" if blocks else "there is no swap space to swap to",
        f"{len(fallen):,} of the last {count(len(recent), 'preemption')} recompute instead: {taken}, the largest "
        f"victim held {largest:,}",
        f"give it at least {size(bytes_needed)} (--swap-memory), or preempt by recompute",
    )


def preempted_again_and_again(view: PoolView, now_s: float, held: bool) -> Case | None:
    """One sequence is the victim over and over: it computes the same tokens and gets no further."""
    sequence = max(view.sequences.values(), key=lambda s: s.preemptions, default=None)
    if sequence is None or sequence.preemptions < OFTEN:
        return None
    swaps = view.settings.get("preempt") == "swap"
    return Case(
        "problem",
        f"{sequence.name} is thrown out again and again",
        f"preempted {sequence.preemptions:,} times, {count(sequence.recomputed_tokens, 'token')} computed again, "
        f"{sequence.generated:,} of at most {sequence.max_tokens:,} generated",
        "lower max_num_seqs, keep a watermark, or give it a smaller priority number"
        + ("" if swaps else "; preemption by swap (--preempt swap) would save the recompute"),
        sequence.seq,
    )


RULES = (
    Rule("admission", admission_exceeds_memory, until_s=10.0),
    Rule("again", preempted_again_and_again),
    Rule("full", pool_full),
    Rule("one-holds-most", one_holds_most, after_s=5.0),
    Rule("swap", swap_full),
    Rule("full-of-cache", full_of_cache, after_s=5.0),
)
