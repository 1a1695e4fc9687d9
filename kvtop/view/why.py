"""Why something is as it is, in one sentence, read along the causes of events: a wait, a freeze, a block's fate.

Numbers come from the events that decided; what the log no longer holds is left out rather than guessed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtop.engine import events as e
from kvtop.view.describe import describe, shortage_words
from kvtop.view.event_log import LogEntry
from kvtop.view.sequence_view import SequenceView
from kvtop.view.turns import comes_next, head_of
from kvtop.view.wait_now import wait_words_now
from kvtop.view.words import count, who

if TYPE_CHECKING:
    from kvtop.view.pool_view import PoolView


def why_sequence(view: PoolView, seq: int) -> str:
    """Why a sequence is in the state it is in."""
    sequence = view.sequences.get(seq)
    if sequence is None:
        return f"{view.name_of(seq)} is over"
    if sequence.status == "running":
        return _why_running(view, sequence)
    stood = _stood_still(view, sequence)
    waits = _why_waiting(view, sequence)
    return f"{who(view, seq)} {stood}{waits}"


def why_block(view: PoolView, block: int) -> str:
    """How a block came into its state, from the last event that touched it."""
    ref_count, shown = int(view.blocks.ref_counts[block]), view.block_id(block)
    if ref_count:
        holders = [who(view, sequence.seq) for sequence, _ in view.holders_of(block)]
        state = f"block {shown} is held by {_listed(holders)}"
        if ref_count > 1:
            state += f": held {ref_count} times, stored once, which saves {count(ref_count - 1, 'block')}"
    elif view.blocks.hashes[block]:
        place = int((view.blocks.cached_order() == block).argmax()) + 1
        state = (
            f"block {shown} is cached: nobody holds it, it is number {place:,} of {view.blocks.cached:,} to be evicted"
        )
    else:
        place = int((view.blocks.free_order() == block).argmax()) + 1
        state = f"block {shown} is free, number {place:,} of {view.blocks.free:,} to be handed out"
    entry = last_touch(view, block, _TAKES if ref_count else _TOUCHES)
    if entry is None:
        return state
    return f"{state}; step {entry.step:,}: {why_event(view, entry.event)}"


def why_event(view: PoolView, event: e.AnyEvent) -> str:
    """An event and what made it necessary, nearest cause first."""
    reasons = [describe(event, view)]
    for entry in view.log.causes(event):
        cause = entry.event
        asked = isinstance(cause, e.Commanded) and cause.command != "inject"  # that it was sent in explains nothing
        if asked or isinstance(cause, e.Shortage | e.Preempted | e.Finished | e.Waits | e.Evicted):
            reasons.append(describe(cause, view))
        if len(reasons) == 3:
            break
    return ", because: ".join(reasons)


_TAKES = (e.Allocated, e.Shared, e.Hit, e.Copied)
"""Events by which a table comes to hold a block."""
_TOUCHES = (*_TAKES, e.Cached, e.Evicted, e.Freed, e.CacheCleared)


def last_touch(view: PoolView, block: int, kinds: tuple[type[e.Event], ...] = _TOUCHES) -> LogEntry | None:
    """The latest event in the log of these ``kinds`` that names a block of the pool."""
    for entry in reversed(view.log.entries):
        event = entry.event
        if not isinstance(event, kinds):
            continue
        if isinstance(event, e.Copied):
            if block in (event.src, event.dst):
                return entry
        elif isinstance(event, e.Freed) and event.space == "swap":
            continue
        elif any(first <= block < first + length for first, length in getattr(event, "runs", ())):
            return entry
    return None


def _why_running(view: PoolView, sequence: SequenceView) -> str:
    held = count(len(sequence.table), "block")
    since = f"has run since step {sequence.admitted_step:,} and " if sequence.admitted_step is not None else ""
    left = sequence.tokens - sequence.computed
    doing = f"prefills, {left:,} of {sequence.tokens:,} tokens to go" if sequence.in_prefill else "decodes"
    return f"{who(view, sequence.seq)} {doing}: it {since}holds {held}"


def _stood_still(view: PoolView, sequence: SequenceView) -> str:
    """Who took its blocks, if somebody did."""
    for entry in reversed(view.log.entries):
        event = entry.event
        if isinstance(event, e.Preempted) and event.seq == sequence.seq and sequence.preempt_mode:
            cause = view.log.find(event.cause)
            why = (
                f" because {shortage_words(cause.event, view)}" if cause and isinstance(cause.event, e.Shortage) else ""
            )
            rule = "the operator" if event.rule == "operator" else f"rule {event.rule}"
            verb = "swapped out" if event.mode == "swap" else "preempted"
            tokens = count(event.tokens, "token")
            cost = f"{tokens} to copy back" if event.mode == "swap" else f"up to {tokens} to recompute"
            lost = f"{count(event.held, 'block')}, {cost}"
            return f"was {verb} at step {entry.step:,} by {rule}{why}: {lost}; it "
    return ""


def _why_waiting(view: PoolView, sequence: SequenceView) -> str:
    head = head_of(view, sequence.status)
    if head is not None and head is not sequence:
        behind = f"waits behind {who(view, head.seq)}"
        if comes_next(view, head):
            return f"{behind}, whose turn comes with the next step"
        return f"{behind}, which waits: {wait_words_now(view, head.wait)}" if head.wait is not None else behind
    wait = sequence.wait
    if wait is None:
        turn = comes_next(view, sequence)
        return "waits for the next step" if turn else "is the head of the queue; what it waits for is not told"
    if wait.reason not in ("blocks", "watermark"):
        return f"waits: {wait_words_now(view, wait)}"
    running = view.with_status("running")
    if not running:
        return f"waits: {wait_words_now(view, wait)}"
    largest = max(running, key=lambda s: (len(s.table), -s.seq))
    since = f" since step {largest.admitted_step:,}" if largest.admitted_step is not None else ""
    return f"waits: {wait_words_now(view, wait)}; {who(view, largest.seq)} has held {len(largest.table):,}{since}"


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"
