"""The decision path: which way the scheduler took for a sequence in the last step, question by question.

    its last block has room?  →  free block?  →  cached one to evict?  →  who is the victim, by which rule, what did
    that free?  →  try again

and for one at the head of the queue: a seat? tokens left in this step? blocks? the watermark? Every answer and number
is a field of an event of that step. Nothing is decided here a second time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtop.engine import events as e
from kvtop.view.words import blocks_in, count, spans, who

if TYPE_CHECKING:
    from kvtop.view.pool_view import PoolView


WAITS = "it waits"


@dataclass(frozen=True, slots=True)
class Turn:
    """One question on the path. ``yes`` is None where the answer is a name and not a yes or no."""

    question: str
    yes: bool | None
    numbers: str
    then: str


def decision_path(view: PoolView, seq: int) -> list[Turn]:
    """The path for ``seq`` in the view's last step; empty when nothing was decided about it."""
    events = [entry.event for entry in view.log.of_step(view.step)]
    in_one_piece = view.info is not None and view.info.policy != "paged"
    entry = _entry(events, seq, in_one_piece)
    room = _room(events, seq, view)
    if room and entry and entry[-1].then == WAITS:  # it lost its blocks first, and then asked to come back
        return room + entry
    advanced = view.last_advanced
    if not room and advanced is not None and seq in advanced.seqs:
        room = [_write(advanced, seq)]
    return entry + room


def sequence_in_question(view: PoolView) -> int | None:
    """The sequence whose path tells most about the last step: one that threw somebody out, else one that evicted or
    came to its end for want of blocks, else one that waits, came in or took a block; else the oldest that runs."""
    events = [entry.event for entry in view.log.of_step(view.step)]
    for event in events:
        if isinstance(event, e.Preempted) and event.needed_by:
            return event.needed_by
    for kind in (e.Shortage, e.Copied, e.Admitted, e.Resumed, e.Waits, e.Allocated):
        for event in events:
            if isinstance(event, kind):
                return event.seq
    running = view.with_status("running")
    return min(running, key=lambda s: (s.admitted_order, s.index)).seq if running else None


def _entry(events: list[e.AnyEvent], seq: int, in_one_piece: bool) -> list[Turn]:
    """The way into the running ones: past each hurdle up to the one that stopped it, or all of them."""
    for event in events:
        if isinstance(event, e.Waits | e.Admitted | e.Resumed) and event.seq == seq:
            reason = event.reason if isinstance(event, e.Waits) else None
            return _hurdles(event, reason, in_one_piece)
    return []


def _hurdles(
    event: e.Waits | e.Admitted | e.Resumed, stopped_by: e.WaitReason | None, in_one_piece: bool
) -> list[Turn]:
    if stopped_by == "swapped_first":
        return [Turn("are swapped-out sequences back?", False, "", "they come first: it waits")]
    if stopped_by == "siblings":
        return [Turn("have its siblings computed what it can share?", False, "", "it waits and then shares")]
    came_in = not isinstance(event, e.Waits)
    running = event.running - came_in
    blocks = f"needs {event.needed:,}, {event.free:,} free + {event.cached:,} cached"
    if not isinstance(event, e.Resumed) and event.promised:
        blocks += f" - {event.promised:,} promised"
    elif stopped_by == "blocks" and in_one_piece and event.free >= event.needed:
        blocks += ", but no hole is so large"
    hurdles: list[tuple[e.WaitReason, str, str]] = [
        ("seats", "a seat?", f"{running:,} run"),
        ("token_budget", "tokens left in this step?", ""),
        ("preemption_bound", "fewer preemptions than the bound?", ""),
        ("blocks", "blocks in one piece?" if in_one_piece else "blocks?", blocks),
    ]
    if not isinstance(event, e.Resumed) and event.watermark_blocks and running:
        left = event.free + event.cached - event.needed
        hurdles.append(
            ("watermark", "above the watermark?", f"{left:,} would be left, {event.watermark_blocks:g} must be")
        )
    turns: list[Turn] = []
    for reason, question, numbers in hurdles:
        if reason == stopped_by:
            return [*turns, Turn(question, False, numbers, WAITS)]
        if reason != "preemption_bound":
            turns.append(Turn(question, True, numbers, ""))
    word = "resumed" if isinstance(event, e.Resumed) else "admitted"
    return [*turns[:-1], Turn(turns[-1].question, True, turns[-1].numbers, word)]


def _room(events: list[e.AnyEvent], seq: int, view: PoolView) -> list[Turn]:
    """From "has its last block room?" to what was done about it, for the blocks it asked for in this step."""
    turns: list[Turn] = []
    shortage: e.Shortage | None = None
    victims = 0
    for event in events:
        if isinstance(event, e.Shortage) and event.seq == seq:
            shortage = event
            turns.append(_last_block(event.held, view))
            turns.append(Turn("free blocks?", False, f"needs {event.needed:,}, {event.free:,} free", ""))
        elif shortage is None or event.cause != shortage.id:
            if isinstance(event, e.Allocated | e.Copied) and event.seq == seq:
                turns += _taken(event, view)
        elif isinstance(event, e.Evicted):
            turns.append(_evicted(event, shortage, victims, view))
        elif isinstance(event, e.Preempted):
            turns += _preempted(event, shortage, victims, view)
            victims += 1
        elif isinstance(event, e.Finished) and event.seq == seq:
            ends = f"it ends with {count(event.generated, 'token')} generated"
            turns.append(Turn("anybody left to preempt?", False, "", ends))
        elif isinstance(event, e.Allocated | e.Copied):
            turns.append(_taken(event, view)[-1])
    return turns


def _evicted(event: e.Evicted, shortage: e.Shortage, victims: int, view: PoolView) -> Turn:
    gone = f"evict {blocks_in(event.runs):,}, least recently used first ({spans(event.runs, view)})"
    if victims:
        return Turn("try again?", True, "what was freed is cached", gone)
    return Turn("enough if cached ones go?", True, f"{shortage.cached:,} cached", gone)


def _preempted(event: e.Preempted, shortage: e.Shortage, victims: int, view: PoolView) -> list[Turn]:
    if victims:
        turns = [Turn("try again?", False, "still short", "")]
    else:
        turns = [Turn("enough if cached ones go?", False, f"{shortage.cached:,} cached", "")]
    tokens = count(event.tokens, "token")
    cost = f"{tokens} swapped out" if event.mode == "swap" else f"up to {tokens} to recompute"
    freed = f"{event.freed:,} of its {count(event.held, 'block')} freed, {cost}"
    turns.append(Turn(f"the victim, by rule {event.rule}?", None, who(view, event.seq), f"preempt: {freed}"))
    if event.seq == shortage.seq:
        turns.append(Turn("try again?", False, "it was the victim itself", WAITS))
    return turns


def _taken(event: e.Allocated | e.Copied, view: PoolView) -> list[Turn]:
    if isinstance(event, e.Copied):
        return [
            Turn("is the block it writes into its own?", False, f"block {view.block_id(event.src)} is shared", ""),
            Turn(
                "free blocks?", True, f"{event.free:,} free",
                f"copy {count(event.tokens, 'slot')} to block {event.dst} and write there",
            ),
        ]  # fmt: skip
    taken = blocks_in(event.runs)
    return [
        _last_block(event.held - taken, view),
        Turn(
            "free blocks?",
            True,
            f"needs {taken:,}, {event.free:,} free",
            f"append {spans(event.runs, view)}",
        ),
    ]


def _last_block(held: int, view: PoolView) -> Turn:
    if not held:
        return Turn("has its last block room?", False, "it holds none yet", "")
    slots = count(held * view.block_size, "slot")
    return Turn("has its last block room?", False, f"all {slots} of its {count(held, 'block')} are filled", "")


def _write(advanced: e.Advanced, seq: int) -> Turn:
    """It asked for nothing: what it computed went into blocks it held already."""
    computed = advanced.counts[advanced.seqs.index(seq)]
    return Turn("has its last block room?", True, f"{count(computed, 'token')} computed", "write")
