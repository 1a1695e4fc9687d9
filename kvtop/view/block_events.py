"""What each event about blocks changes in a PoolView: one function an event."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kvtop.engine import events as e
from kvtop.view.sequence_events import forget_if_over, runs
from kvtop.view.sequence_view import SequenceView

if TYPE_CHECKING:
    from kvtop.view.pool_view import PoolView


def _note_peak(view: PoolView) -> None:
    view.counters.peak_active_blocks = max(view.counters.peak_active_blocks, view.blocks.active)


def allocated(view: PoolView, event: e.Allocated) -> None:
    view.blocks.take(event.runs, event.seq, view.step)
    sequence = view.sequences[event.seq]
    sequence.table += e.from_runs(event.runs)
    sequence.life.hold(view.step, len(sequence.table))
    _note_peak(view)


def shared(view: PoolView, event: e.Shared) -> None:
    view.blocks.hold(event.runs, event.seq, view.step)
    sequence = view.sequences[event.seq]
    sequence.table += e.from_runs(event.runs)
    sequence.life.hold(view.step, len(sequence.table))
    sequence.computed = event.tokens


def hit(view: PoolView, event: e.Hit) -> None:
    view.blocks.hold(event.runs, event.seq, view.step)
    sequence = view.sequences[event.seq]
    sequence.table += e.from_runs(event.runs)
    sequence.life.hold(view.step, len(sequence.table))
    sequence.computed = event.tokens
    if event.resumed:
        view.counters.resumed_hit_tokens += event.tokens
    else:
        view.counters.prefix_hit_tokens += event.tokens
        view.blocks.hit(event.runs)
    _note_peak(view)


def copied(view: PoolView, event: e.Copied) -> None:
    table = view.sequences[event.seq].table
    table[event.logical] = event.dst
    view.blocks.take([(event.dst, 1)], event.seq, view.step)
    view.blocks.write([event.dst], [event.tokens], view.step)
    view.blocks.release([(event.src, 1)], view.step)
    give_heirs(view, [event.src], event.seq, event.logical)
    refill(view, view.sequences[event.seq], [event.src])
    view.counters.copy_on_write += 1
    _note_peak(view)


def cached(view: PoolView, event: e.Cached) -> None:
    view.blocks.index(event.runs, event.hashes, event.parent, view.step)


def evicted(view: PoolView, event: e.Evicted) -> None:
    view.blocks.evict(event.runs, view.step)
    view.counters.evicted_blocks += sum(count for _, count in event.runs)


def freed(view: PoolView, event: e.Freed) -> None:
    sequence = view.sequences[event.seq]
    if event.space == "swap":
        view.swap.release(event.runs, view.step)
        sequence.swap_table = []
    else:
        view.blocks.release(event.runs, view.step)
        table, sequence.table = sequence.table, []
        sequence.life.hold(view.step, 0)
        give_heirs(view, table, event.seq, 0)
        refill(view, sequence, table)
        if sequence.status == "finished":
            view.ended_filled_slots += event.filled_slots
            view.ended_unfilled_slots += event.reserved_slots
    forget_if_over(view, sequence)


def give_heirs(view: PoolView, blocks: list[int], seq: int, logical: int) -> None:
    """``seq`` let go of ``blocks``, which stood in its table from ``logical`` on; those that others still hold are
    drawn as one of these from now on. A shared block stands at the same logical index in every table."""
    holders, owners = view.blocks.holders, view.blocks.owners
    for index in view.blocks.orphans(blocks, seq):
        block = blocks[index]
        heirs = (s.seq for s in view.sequences.values() if _holds(s, block, logical + index))
        owner = view.sequences.get(int(owners[block]))
        holders[block] = owner.seq if owner and _holds(owner, block, logical + index) else min(heirs)


def _holds(sequence: SequenceView, block: int, logical: int) -> bool:
    return len(sequence.table) > logical and sequence.table[logical] == block


def refill(view: PoolView, leaver: SequenceView, blocks: list[int]) -> None:
    """``leaver`` let go of ``blocks``: one it shared with siblings, partly filled, holds what these computed in it."""
    for sibling in view.sequences.values():
        if sibling.request_id == leaver.request_id and sibling is not leaver and sibling.computed % view.block_size:
            logical, filled = divmod(sibling.computed, view.block_size)
            block = sibling.table[logical] if logical < len(sibling.table) else -1
            if block in blocks:
                others = (s.fills(view.block_size, logical + 1)[logical] for s, _ in view.holders_of(block))
                view.blocks.fills[block] = max(filled, *others)


def swapped_out(view: PoolView, event: e.SwappedOut) -> None:
    sequence = view.sequences[event.seq]
    sequence.swap_table = e.from_runs(event.swap_runs)
    held = view.swap.ref_counts[sequence.swap_table] > 0  # beams go together: what they share is copied once
    shared_blocks = [block for block, is_held in zip(sequence.swap_table, held, strict=True) if is_held]
    copied_blocks = [block for block, is_held in zip(sequence.swap_table, held, strict=True) if not is_held]
    view.swap.hold(e.to_runs(shared_blocks), 0, view.step)
    view.swap.take(e.to_runs(copied_blocks), 0, view.step)
    view.counters.swapped_blocks += len(copied_blocks)


def swapped_in(view: PoolView, event: e.SwappedIn) -> None:
    sequence = view.sequences[event.seq]
    view.swap.release(event.swap_runs, view.step)
    sequence.swap_table = []
    sequence.computed = event.tokens
    runs(view, sequence)
    filled = sequence.fills(view.block_size, len(sequence.table))
    view.blocks.write(sequence.table, filled, view.step)


def cache_cleared(view: PoolView, event: e.CacheCleared) -> None:
    view.blocks.clear_cache(event.runs, view.step)


def requeued(view: PoolView, event: e.Requeued) -> None:
    view.blocks.requeue(event.front, event.back, view.step)


HANDLERS: dict[type, Callable[[PoolView, Any], None]] = {
    e.Allocated: allocated,
    e.Shared: shared,
    e.Hit: hit,
    e.Copied: copied,
    e.Cached: cached,
    e.Evicted: evicted,
    e.Freed: freed,
    e.SwappedOut: swapped_out,
    e.SwappedIn: swapped_in,
    e.CacheCleared: cache_cleared,
    e.Requeued: requeued,
}
