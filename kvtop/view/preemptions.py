"""The last preemptions with what became of them, kept apart from the log, which a busy engine fills within seconds.

Kept by PoolView from events alone. What is said of coming back is what was seen: where news were missed, it is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kvtop.engine.events import Preempted
from kvtop.view.words import count

if TYPE_CHECKING:
    from kvtop.view.pool_view import PoolView
    from kvtop.view.sequence_view import SequenceView

KEPT = 5


class Preemption(msgspec.Struct, kw_only=True):
    """One sequence that lost its blocks, and whether it came back."""

    event: Preempted
    name: str
    step: int
    wall_s: float
    swapped_blocks: int = 0
    """Blocks of its KV in the swap space; 0 when it is to recompute."""
    back_step: int | None = None
    """Step at which it ran again."""
    ended_step: int | None = None
    """Step at which it ended instead."""


def note_preempted(view: PoolView, event: Preempted, sequence: SequenceView) -> None:
    swapped_blocks = len(sequence.swap_table)
    view.preemptions.append(
        Preemption(event=event, name=sequence.name, step=view.step, wall_s=view.wall_s, swapped_blocks=swapped_blocks)
    )
    del view.preemptions[:-KEPT]


def note_back(view: PoolView, seq: int) -> None:
    if (preemption := _awaited(view, seq)) is not None:
        preemption.back_step = view.step


def note_ended(view: PoolView, seq: int) -> None:
    if (preemption := _awaited(view, seq)) is not None:
        preemption.ended_step = view.step


def is_out(view: PoolView, preemption: Preemption) -> bool:
    """It still waits to come back."""
    sequence = view.sequences.get(preemption.event.seq)
    return (
        sequence is not None
        and sequence.status in ("waiting", "swapped")
        and sequence.preemptions == preemption.event.preemptions
    )


def preemption_words(view: PoolView, preemption: Preemption) -> str:
    """What it cost and what became of it: ``3 blocks freed, up to 41 tokens to recompute; back at step 99``."""
    event = preemption.event
    cost = f"up to {count(event.tokens, 'token')} to recompute"
    if event.mode == "swap":
        cost = f"{count(preemption.swapped_blocks, 'block')} swapped out"
    if preemption.back_step is not None:
        fate = f"back at step {preemption.back_step:,}"
    elif preemption.ended_step is not None:
        fate = f"ended at step {preemption.ended_step:,}"
    else:
        fate = "not back yet" if is_out(view, preemption) else "back since, when is not known"
    return f"{count(event.freed, 'block')} freed, {cost}; {fate}"


def _awaited(view: PoolView, seq: int) -> Preemption | None:
    """The last preemption of ``seq``, if nothing has become of it yet."""
    for preemption in reversed(view.preemptions):
        if preemption.event.seq == seq:
            return preemption if preemption.back_step is None and preemption.ended_step is None else None
    return None
