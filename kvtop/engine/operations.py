"""What an operator may do to a running scheduler, between two steps. Each is an event, and what follows names it as
cause.

A thing that cannot be done raises Refused with a sentence for the operator, and nothing has changed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvtop.engine.config import PREEMPT_MODES, VICTIM_RULES, SchedulerConfig
from kvtop.engine.events import Changed, PreemptMode
from kvtop.engine.scheduler import Scheduler

SETTINGS = ("watermark", "max_num_seqs", "max_num_batched_tokens", "victim", "preempt")


class Refused(ValueError):
    """The command cannot be carried out; the message says why and what could be."""


def abort(scheduler: Scheduler, request_id: str, cause: int) -> None:
    """End a request with all its sequences. An unknown or ended one is refused, so that aborting twice is aborting
    once."""
    group = scheduler.roster.groups.get(request_id)
    if group is None:
        raise Refused(f"request {request_id!r} is not unfinished here")
    scheduler.roster.end_group(group, "abort", cause)


def preempt(scheduler: Scheduler, seq: int, mode: PreemptMode, cause: int) -> None:
    """Preempt one running sequence now, whatever the pool holds."""
    sequence = next((s for s in scheduler.roster.running if s.seq == seq), None)
    if sequence is None:
        live = (s for group in scheduler.roster.groups.values() for s in group.live)
        owner = next((f"of request {s.request.id!r} " for s in live if s.seq == seq), "")
        raise Refused(f"sequence {seq} {owner}is not running, only a running one can be preempted")
    unit = scheduler.roster.groups[sequence.request.id].unit(sequence)
    if mode == "swap" and not scheduler.kv.can_swap_out(unit):
        swap = scheduler.kv.swap
        advice = "" if swap.num_blocks else "; start the engine with --swap-memory, say 1GiB"
        raise Refused(
            f"request {sequence.request.id!r} holds {len(sequence.table)} blocks, "
            f"the swap space has {swap.num_free} of {swap.num_blocks} free{advice}"
        )
    scheduler.preempt(sequence, mode, "operator", cause)


def clear_cache(scheduler: Scheduler, cause: int) -> None:
    """Empty the prefix cache."""
    scheduler.kv.clear_cache(scheduler.roster.running, cause)


def change_priority(scheduler: Scheduler, request_id: str, priority: int, cause: int) -> None:
    """Move a request in the queue, and in the eyes of the ``lowest-priority`` rule."""
    group = scheduler.roster.groups.get(request_id)
    if group is None:
        raise Refused(f"request {request_id!r} is not unfinished here")
    old, group.request.priority = group.request.priority, priority
    scheduler.roster.sort_queues()
    scheduler.journal.add(Changed, cause, name="priority", old=str(old), new=str(priority), request_id=request_id)


def read_setting(config: SchedulerConfig, name: str, value: str) -> Any:
    """The value that one of ``SETTINGS`` of ``config`` is to have, from its text.

    Raises:
        ValueError: it cannot change while the engine runs, or the value is none it can have.
    """
    if name not in SETTINGS:
        raise ValueError(f"{name} cannot change while the engine runs; these can: {', '.join(SETTINGS)}")
    allowed = {"victim": VICTIM_RULES, "preempt": PREEMPT_MODES}.get(name)
    try:
        new = type(getattr(config, name))(value)
        replace(config, **{name: new})
    except ValueError:
        what = (
            f"one of {', '.join(allowed)}"
            if allowed
            else {"watermark": "a share from 0 to below 1"}.get(name, "a whole number of at least 1")
        )
        raise ValueError(f"{name} is {value!r}, expected {what}") from None
    if new == "swap" and not config.swap_blocks:
        raise ValueError("preempt cannot be swap: this engine has no swap space; start it with --swap-memory, say 1GiB")
    return new


def change_setting(scheduler: Scheduler, name: str, value: str, cause: int) -> None:
    """Change one of ``SETTINGS``; it holds from the next step on. What runs over a lowered cap runs on."""
    old = getattr(scheduler.config, name, None)
    try:
        new = read_setting(scheduler.config, name, value)
    except ValueError as error:
        raise Refused(str(error)) from None
    widest = max((group.request.beam_width for group in scheduler.roster.groups.values()), default=0)
    if name in ("max_num_seqs", "max_num_batched_tokens") and new < widest:
        raise Refused(f"{name} is {new}, but a request whose {widest} beams run together is unfinished")
    setattr(scheduler.config, name, new)
    scheduler.journal.add(Changed, cause, name=name, old=str(old), new=str(new))
