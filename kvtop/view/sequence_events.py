"""What each event about requests, sequences and the step changes in a PoolView: one function an event."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from kvtop.engine import events as e
from kvtop.view.clean import clean_line
from kvtop.view.life import Life
from kvtop.view.preemptions import note_back, note_ended, note_preempted
from kvtop.view.sequence_view import EndedRequest, SequenceView, display_name

if TYPE_CHECKING:
    from kvtop.view.pool_view import PoolView


ENDED_TEXT = 200
"""Characters of an ended request's text that are kept."""


def queued(view: PoolView, event: e.Queued) -> None:
    view.counters.requests += 1
    view.sequences[event.seq] = sequence = SequenceView(
        seq=event.seq,
        request_id=event.request_id,
        name=display_name(event.request_id, 0, event.n > 1 or event.beam_width > 1),
        index=0,
        n=event.n,
        beam_width=event.beam_width,
        priority=event.priority,
        prompt_tokens=event.prompt_tokens,
        max_tokens=event.max_tokens,
        prompt=clean_line(event.prompt, 300),
        tokens=event.prompt_tokens,
        table=[],
        swap_table=[],
        arrival=event.seq,
        queued_step=view.step,
        queued_s=view.step_began_s,
    )
    sequence.life.enter("waits", view.step, view.step_began_s)


def rejected(view: PoolView, event: e.Rejected) -> None:
    view.counters.requests += 1
    view.counters.rejected += 1
    list_rejected(view, event)


def list_rejected(view: PoolView, event: e.Rejected) -> None:
    """Put it into the list of what is over."""
    view.ended.append(
        EndedRequest(
            request_id=event.request_id,
            name=display_name(event.request_id, 0, False),
            reasons=["rejected"],
            prompt_tokens=event.prompt_tokens,
            queued_s=view.wall_s,
            ended_s=view.wall_s,
            ended_step=view.step,
            text=clean_line(event.reason, 300),
        )
    )


def forked(view: PoolView, event: e.Forked) -> None:
    parent = view.sequences[event.parent]
    child = msgspec.structs.replace(
        parent,
        seq=event.seq,
        name=display_name(event.request_id, event.index, True),
        index=event.index,
        status="waiting",
        tokens=event.tokens,
        computed=0,
        cached_tokens=0,
        high_water=event.tokens,
        table=[],
        swap_table=[],
        preemptions=0,
        recomputed_tokens=0,
        preempt_mode=None,
        wait=None,
        admitted_order=0,
        admitted_step=None,
        queued_step=view.step,
        life=Life(),
    )
    view.sequences[event.seq] = child
    child.life.enter("decode" if event.runs_now else "waits", view.step, view.step_began_s)
    if event.runs_now:  # beside its parent and as old as it: no admission of its own
        child.status = "running"
        child.admitted_order = parent.admitted_order
        child.admitted_step = view.step
        view.slots.assign(child.seq)


def waits(view: PoolView, event: e.Waits) -> None:
    view.sequences[event.seq].wait = event


def admitted(view: PoolView, event: e.Admitted) -> None:
    sequence = view.sequences[event.seq]
    if sequence.high_water == 0:  # else a fork that had to wait: its prompt was counted with its parent
        sequence.cached_tokens = event.cached_tokens
        view.counters.prompt_tokens += sequence.prompt_tokens
    _count_lookup(view, sequence, event.tokens)
    runs(view, sequence)


def resumed(view: PoolView, event: e.Resumed) -> None:
    if event.mode == "swap":  # beams come back together: a SwappedIn for each follows
        return
    sequence = view.sequences[event.seq]
    _count_lookup(view, sequence, event.tokens)
    runs(view, sequence)


def _count_lookup(view: PoolView, sequence: SequenceView, tokens: int) -> None:
    """Every admission looks its tokens up in the prefix index; those of one that lost its KV are a figure apart."""
    if not view.caches_prefixes:
        return
    if sequence.high_water:
        view.counters.resumed_queried_tokens += tokens
    else:
        view.counters.prefix_queried_tokens += tokens


def runs(view: PoolView, sequence: SequenceView) -> None:
    view.admissions += 1
    sequence.status = "running"
    sequence.wait = None
    sequence.preempt_mode = None
    sequence.admitted_order = view.admissions
    sequence.admitted_step = view.step
    sequence.life.enter(sequence.phase, view.step, view.step_began_s)
    view.slots.assign(sequence.seq)
    note_back(view, sequence.seq)


def preempted(view: PoolView, event: e.Preempted) -> None:
    view.counters.preemptions += 1
    sequence = view.sequences[event.seq]
    sequence.status = "swapped" if event.mode == "swap" else "waiting"
    sequence.preempt_mode = event.mode
    sequence.preemptions = event.preemptions
    sequence.queued_step = view.step
    note_preempted(view, event, sequence)
    if event.mode == "recompute":
        sequence.high_water = max(sequence.high_water, sequence.computed)
        sequence.computed = 0
    sequence.life.enter(sequence.phase, view.step, view.step_began_s)


def finished(view: PoolView, event: e.Finished) -> None:
    sequence = view.sequences[event.seq]
    sequence.closed_gap_s = sequence.longest_gap_s(view.wall_s, view.pauses)
    sequence.status = "finished"
    sequence.finish_reason = event.reason
    sequence.stop_reason = event.stop_reason
    note_ended(view, event.seq)
    forget_if_over(view, sequence)


def forget_if_over(view: PoolView, sequence: SequenceView) -> None:
    """An ended sequence goes when its last block is released."""
    if sequence.status == "finished" and not sequence.table and not sequence.swap_table:
        del view.sequences[sequence.seq]
        view.slots.release(sequence.seq)
        view.remember_name(sequence)
        if sequence.index == 0:
            view.over[sequence.request_id] = sequence


def completed(view: PoolView, event: e.Completed) -> None:
    view.counters.completed += 1
    if event.reasons[0] in ("stop", "length"):
        view.counters.generated_tokens += len(event.answer)  # of a beam search only the answer counts
    list_completed(view, event)


def list_completed(view: PoolView, event: e.Completed) -> None:
    """Put it into the list of what is over."""
    first = view.over.pop(event.request_id, None)
    view.ended.append(
        EndedRequest(
            request_id=event.request_id,
            name=display_name(event.request_id, 0, False),
            reasons=event.reasons,
            prompt_tokens=event.prompt_tokens,
            generated=event.generated,
            cached_tokens=event.cached_tokens,
            preemptions=event.preemptions,
            recomputed_tokens=event.recomputed_tokens,
            swapped_blocks=event.swapped_blocks,
            queued_s=first.queued_s if first else None,
            first_token_s=first.first_token_s if first else None,
            ended_s=view.wall_s,
            ended_step=view.step,
            longest_gap_s=first.closed_gap_s if first else 0.0,
            life=first.life if first else Life(is_cut=True),
            text=clean_line((event.answer_text or (first.raw_text if first else ""))[-ENDED_TEXT:], ENDED_TEXT),
        )
    )


def advanced(view: PoolView, event: e.Advanced) -> None:
    view.last_advanced = event
    size = view.block_size
    sequences = view.sequences
    blocks: list[int] = []
    fills: list[int] = []
    for seq, count, token, text in zip(event.seqs, event.counts, event.sampled, event.texts, strict=True):
        sequence = sequences.get(seq)
        if sequence is None:  # a beam that was computed, fell behind and is gone by now
            continue
        if count:
            start, stop = sequence.computed, sequence.computed + count
            sequence.computed = stop
            if start < sequence.high_water:
                sequence.recomputed_tokens += min(stop, sequence.high_water) - start
            for logical in range(start // size, (stop - 1) // size + 1):
                blocks.append(sequence.table[logical])
                fills.append(min(size, stop - logical * size))
        if token >= 0:
            sequence.add_token(text, view.step, view.wall_s, view.pauses)
            if not sequence.beam_width:
                view.counters.generated_tokens += 1
    if blocks:
        view.blocks.write(blocks, fills, view.step)
    view.counters.computed_tokens += sum(event.counts)
    view.counters.recomputed_tokens += event.recomputed


def step_timed(view: PoolView, event: e.StepTimed) -> None:
    view.counters.steps += 1
    view.last_timing = event


def changed(view: PoolView, event: e.Changed) -> None:
    if event.name == "paused":
        view.paused = event.new == "true"
        view.pauses.note(view.paused, view.wall_s)
    elif event.name != "priority":
        view.settings[event.name] = event.new
    else:
        for sequence in view.sequences.values():
            if sequence.request_id == event.request_id:
                sequence.priority = int(event.new)


HANDLERS: dict[type, Callable[[PoolView, Any], None]] = {
    e.Queued: queued,
    e.Rejected: rejected,
    e.Forked: forked,
    e.Waits: waits,
    e.Admitted: admitted,
    e.Resumed: resumed,
    e.Preempted: preempted,
    e.Finished: finished,
    e.Completed: completed,
    e.Advanced: advanced,
    e.StepTimed: step_timed,
    e.Changed: changed,
}
