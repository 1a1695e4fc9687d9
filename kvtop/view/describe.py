"""One line of plain words for every event, with the numbers it carries. The log prints these as they are (but none of
a step's two per-token events, which it would drown in).

A line starts with what happened and to whom; then come the reasons. It reads the event and, where the event says "see
my cause", the cause; it never looks at the state of the pool, so a line stays true however late it is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kvtop.engine import events as e
from kvtop.view.clean import clean_line
from kvtop.view.words import blocks_in, count, spans, who

if TYPE_CHECKING:
    from kvtop.view.pool_view import PoolView

REASON_WORDS: dict[str, str] = {
    "stop": "it said it was done",
    "length": "it reached its limit",
    "abort": "aborted",
    "rejected": "rejected",
    "pool_exhausted": "the pool is exhausted",
    "error": "an error",
    "pruned": "fell behind the other beams",
}


def describe(event: e.AnyEvent, view: PoolView) -> str:
    """The event in words, clean and on one line."""
    teller = _TELLERS.get(type(event))
    return teller(event, view) if teller else type(event).__name__.lower()


def wait_words(wait: e.Waits) -> str:
    """Why the head of the queue waits: ``needs 7 blocks, 3 free``."""
    needs = f"needs {count(wait.needed, 'block')}, {wait.free:,} free"
    if wait.cached:
        needs += f", {wait.cached:,} cached"
    match wait.reason:
        case "seats":
            return f"no seat: {wait.running:,} run, as many as may"
        case "token_budget":
            return "the tokens of this step are spent"
        case "blocks":
            if wait.free >= wait.needed and not wait.promised:
                return f"needs {count(wait.needed, 'block')} in one piece; {wait.free:,} free, not in one"
            return needs + (f", {wait.promised:,} promised to prefills" if wait.promised else "")
        case "watermark":
            return f"{needs}; the watermark keeps {wait.watermark_blocks:,.1f}".removesuffix(".0")
        case "swapped_first":
            return "swapped-out sequences come back first"
        case "siblings":
            return "a sibling computes what it will share"
        case "preemption_bound":
            return "preempted as often as allowed; one such runs already"


def shortage_words(shortage: e.Shortage, view: PoolView) -> str:
    """``A req-17 needed 1 block, 0 free``."""
    cached = f", {shortage.cached:,} cached" if shortage.cached else ""
    return f"{who(view, shortage.seq)} needed {count(shortage.needed, 'block')}, {shortage.free:,} free{cached}"


def _queued(event: e.Queued, view: PoolView) -> str:
    line = f"queue {who(view, event.seq)}  {count(event.prompt_tokens, 'prompt token')}, up to {event.max_tokens:,} new"
    if event.n > 1:
        line += f", {event.n} samples"
    if event.beam_width:
        line += f", {event.beam_width} beams"
    return line + (f", priority {event.priority}" if event.priority else "")


def _rejected(event: e.Rejected, view: PoolView) -> str:
    return f"reject {clean_line(event.request_id, 40)}  {clean_line(event.reason)}"


def _forked(event: e.Forked, view: PoolView) -> str:
    parted = f"fork {who(view, event.seq)}  from {who(view, event.parent)} after {count(event.tokens, 'token')}"
    if event.runs_now:
        return f"{parted}; runs at once"
    return f"{parted}; waits: needs {count(event.needed, 'block')}, {event.free:,} free"


def _waits(event: e.Waits, view: PoolView) -> str:
    return f"wait {who(view, event.seq)}  {wait_words(event)}"


def _admitted(event: e.Admitted, view: PoolView) -> str:
    cached = f", {event.cached_tokens:,} cached" if event.cached_tokens else ""
    waited = f"; waited {count(event.waited_steps, 'step')}" if event.waited_steps else ""
    return (
        f"admit {who(view, event.seq)}  {count(event.tokens, 'token')}{cached}: {_blocks_with_shared(event)}, "
        f"{event.free + event.cached:,} to be had; {event.running:,} run now{waited}"
    )


def _resumed(event: e.Resumed, view: PoolView) -> str:
    to_compute = f"{count(event.tokens - event.cached_tokens, 'token')} to compute"
    how = "swapped in" if event.mode == "swap" else to_compute
    stood = f"stood still {count(event.waited_steps, 'step')}"
    return f"resume {who(view, event.seq)}  {how}; {_blocks_with_shared(event)}; {stood}"


def _blocks_with_shared(event: e.Admitted | e.Resumed) -> str:
    """What its table will hold for the tokens it has, and how many of these others hold already."""
    shared = f", {event.shared:,} of them shared" if event.shared else ""
    return count(event.needed + event.shared, "block") + shared


def _preempted(event: e.Preempted, view: PoolView) -> str:
    cause = view.log.find(event.cause)
    rule = "by the operator" if event.rule == "operator" else event.rule
    why = f"; {shortage_words(cause.event, view)}" if cause and isinstance(cause.event, e.Shortage) else ""
    if event.mode == "swap":
        then = f"{count(event.tokens, 'token')} swapped out"
    else:
        then = f"up to {count(event.tokens, 'token')} to recompute"
        if event.swap_full:
            then += " (swap space is full)" if view.swap.num_blocks else " (there is no swap space)"
    return f"preempt {who(view, event.seq)}  {rule}{why}; {count(event.freed, 'block')} freed, {then}"


def _finished(event: e.Finished, view: PoolView) -> str:
    reason = REASON_WORDS[event.reason]
    if isinstance(event.stop_reason, str):
        reason = f"stop string “{clean_line(event.stop_reason, 30)}”"
    message = f" ({clean_line(event.message)})" if event.message else ""
    return f"end {who(view, event.seq)}  {count(event.generated, 'token')} generated: {reason}{message}"


def _completed(event: e.Completed, view: PoolView) -> str:
    cost = f", {count(event.preemptions, 'preemption')}" if event.preemptions else ""
    again = f", {count(event.recomputed_tokens, 'token')} recomputed" if event.recomputed_tokens else ""
    return f"done {clean_line(event.request_id, 40)}  {count(event.generated, 'token')} generated{cost}{again}"


def _warned(event: e.Warned, view: PoolView) -> str:
    about = f" {who(view, event.seq)} " if event.seq else " "
    return f"warning{about} {clean_line(event.message, 300)}"


def _shortage(event: e.Shortage, view: PoolView) -> str:
    return f"short {shortage_words(event, view)}"


def _allocated(event: e.Allocated, view: PoolView) -> str:
    taken = blocks_in(event.runs)
    then = f"holds {event.held:,}, {event.free - taken:,} free"
    return f"take {who(view, event.seq)}  {count(taken, 'block')} ({spans(event.runs, view)}); {then}"


def _shared(event: e.Shared, view: PoolView) -> str:
    shared, computed = count(blocks_in(event.runs), "block"), count(event.tokens, "token")
    return f"share {who(view, event.seq)}  {shared} of {who(view, event.source)}, {computed} computed already"


def _hit(event: e.Hit, view: PoolView) -> str:
    sequence = view.sequences.get(event.seq)  # also a fork that had to wait looks its tokens up a second time
    again = " after preemption" if event.resumed and sequence is not None and sequence.preemptions else ""
    found = count(blocks_in(event.runs), "block")
    return f"hit {who(view, event.seq)}  {found}, {event.tokens:,} of {count(event.queried, 'token')} cached{again}"


def _copied(event: e.Copied, view: PoolView) -> str:
    filled = count(event.tokens, "filled slot")
    blocks = f"block {view.block_id(event.src)} to {view.block_id(event.dst)}"
    return f"copy {who(view, event.seq)}  {blocks}: it writes into a shared block, {filled}"


def _cached(event: e.Cached, view: PoolView) -> str:
    return f"cache {who(view, event.seq)}  {count(blocks_in(event.runs), 'full block')} ({spans(event.runs, view)})"


def _evicted(event: e.Evicted, view: PoolView) -> str:
    gone = count(blocks_in(event.runs), "cached block")
    return f"evict {gone}, least recently used first ({spans(event.runs, view)})"


def _freed(event: e.Freed, view: PoolView) -> str:
    where = " of swap space" if event.space == "swap" else ""
    fate = f"{event.to_free:,} free now" if event.to_free else "none of them free now"
    fate += f", {event.to_cached:,} stay cached" if event.to_cached else ""
    others = blocks_in(event.runs) - event.to_free - event.to_cached
    fate += f", {others:,} still held by others" if others else ""
    unfilled = f"; {count(event.reserved_slots, 'reserved slot')} never filled" if event.reserved_slots else ""
    given = count(blocks_in(event.runs), "block")
    return f"free {who(view, event.seq)}  {given}{where} given up: {fate}{unfilled}"


def _swapped_out(event: e.SwappedOut, view: PoolView) -> str:
    moved = count(blocks_in(event.swap_runs), "block")
    return f"swap out {who(view, event.seq)}  {moved}, {count(event.tokens, 'token')}"


def _swapped_in(event: e.SwappedIn, view: PoolView) -> str:
    moved = count(blocks_in(event.swap_runs), "block")
    return f"swap in {who(view, event.seq)}  {moved}, {count(event.tokens, 'token')}"


def _cache_cleared(event: e.CacheCleared, view: PoolView) -> str:
    freed = count(blocks_in(event.runs), "cached block")
    return f"clear cache  {freed} freed, {event.unindexed:,} in use lost their place in it"


def _requeued(event: e.Requeued, view: PoolView) -> str:
    places = [
        f"{spans(runs, view)} {where}" for runs, where in ((event.front, "go next"), (event.back, "go last")) if runs
    ]
    return f"queue  {'; '.join(places)}"


def _advanced(event: e.Advanced, view: PoolView) -> str:
    again = f", {event.recomputed:,} of them again" if event.recomputed else ""
    return f"compute  {count(sum(event.counts), 'token')} of {count(len(event.seqs), 'sequence')}{again}"


def _step_timed(event: e.StepTimed, view: PoolView) -> str:
    spent = (("schedule", event.schedule_s), ("run", event.run_s), ("update", event.update_s))
    parts = ", ".join(f"{name} {1000 * seconds:.1f}" for name, seconds in spent)
    total = 1000 * sum(seconds for _, seconds in spent)
    tokens = f"{event.prefill_tokens:,} prefill and {count(event.decode_tokens, 'decode token')}"
    return f"time  {total:.1f} ms: {parts}; {tokens}"


def _commanded(event: e.Commanded, view: PoolView) -> str:
    if event.command == "inject":  # by whom is not known: an operator, a script, or a client of a server of ours
        return f"sent in  {clean_line(event.detail)}"
    if event.command == "step":
        told = clean_line(event.detail, 40)
        return (
            f"operator  runs {told} step{'s' * (told != '1')}" if told.isdecimal() else f"operator  runs until {told}"
        )
    if event.command == "preempt":
        seq, _, mode = clean_line(event.detail, 40).partition(" ")
        if seq.isdecimal():
            return f"operator  preempt {who(view, int(seq))}, {mode}"
    return f"operator  {clean_line(event.command.replace('_', ' '), 40)} {clean_line(event.detail)}".rstrip()


def _changed(event: e.Changed, view: PoolView) -> str:
    of = f" of {clean_line(event.request_id, 40)}" if event.request_id else ""
    return f"change {clean_line(event.name, 40)}{of}  {clean_line(event.old, 40)} → {clean_line(event.new, 40)}"


_TELLERS: dict[type, Callable[[Any, PoolView], str]] = {
    e.Queued: _queued,
    e.Rejected: _rejected,
    e.Forked: _forked,
    e.Waits: _waits,
    e.Admitted: _admitted,
    e.Resumed: _resumed,
    e.Preempted: _preempted,
    e.Finished: _finished,
    e.Completed: _completed,
    e.Warned: _warned,
    e.Shortage: _shortage,
    e.Allocated: _allocated,
    e.Shared: _shared,
    e.Hit: _hit,
    e.Copied: _copied,
    e.Cached: _cached,
    e.Evicted: _evicted,
    e.Freed: _freed,
    e.SwappedOut: _swapped_out,
    e.SwappedIn: _swapped_in,
    e.CacheCleared: _cache_cleared,
    e.Requeued: _requeued,
    e.Advanced: _advanced,
    e.StepTimed: _step_timed,
    e.Commanded: _commanded,
    e.Changed: _changed,
}
