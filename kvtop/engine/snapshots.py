"""A snapshot: the whole state of a scheduler, as data. What a late reader starts from, and a recording seeks to."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from copy import copy

from kvtop.engine.events import EngineInfo, SequenceState, Snapshot, to_runs
from kvtop.engine.groups import RequestGroup
from kvtop.engine.operations import SETTINGS
from kvtop.engine.scheduler import Scheduler
from kvtop.engine.sequences import Sequence, Status


def take_snapshot(scheduler: Scheduler, info: EngineInfo, paused: bool, text_of: Callable[[Sequence], str]) -> Snapshot:
    """The state between two steps. O(pool + tables)."""
    pool = scheduler.kv.pool
    keys = [pool.index.key_of(block.block_id) for block in pool.blocks]
    return Snapshot(
        info=info,
        counters=copy(scheduler.counters),
        ref_counts=_bytes("I", (block.ref_count for block in pool.blocks)),
        hashes=_bytes("Q", (key.digest if key else 0 for key in keys)),
        parents=_bytes("Q", (key.parent.digest if key and key.parent else 0 for key in keys)),
        owners=_bytes("q", (block.owner for block in pool.blocks)),
        fills=_bytes("H", _fills(scheduler)),
        free=_bytes("i", pool.free),
        cached=_bytes("i", pool.cached),
        swap_free=_bytes("i", scheduler.kv.swap.free),
        sequences=[
            _state(sequence, group, text_of(sequence))
            for group in scheduler.roster.groups.values()
            for sequence in group.live
        ],
        settings={name: str(getattr(scheduler.config, name)) for name in SETTINGS},
        paused=paused,
        last_event_id=scheduler.journal.last_id,
    )


def _bytes(code: str, values: Iterable[int]) -> bytes:
    return array(code, values).tobytes()


def _fills(scheduler: Scheduler) -> list[int]:
    """Computed slots a block: full if cached, what its holders have computed if active, 0 if free."""
    size = scheduler.config.block_size
    fills = [0] * scheduler.kv.pool.num_blocks
    for block in scheduler.kv.pool.cached:
        fills[block] = size
    for sequence in scheduler.roster.running:
        for logical, block in enumerate(sequence.table.block_ids):
            fills[block] = max(fills[block], min(size, max(0, sequence.computed - logical * size)))
    return fills


def _state(sequence: Sequence, group: RequestGroup, text: str) -> SequenceState:
    request = sequence.request
    return SequenceState(
        seq=sequence.seq,
        request_id=request.id,
        index=sequence.index,
        n=request.n,
        beam_width=request.beam_width,
        priority=request.priority,
        status=sequence.status.value,
        prompt_tokens=sequence.prompt_len,
        max_tokens=request.max_tokens,
        tokens=len(sequence.tokens),
        computed=sequence.swapped_tokens if sequence.status is Status.SWAPPED else sequence.computed,
        high_water=sequence.high_water,
        runs=to_runs(sequence.table.block_ids),
        swap_runs=to_runs(sequence.swap_table.block_ids),
        cached_tokens=sequence.cached_tokens,
        preemptions=sequence.preemptions,
        recomputed_tokens=sequence.recomputed_tokens,
        admitted_order=sequence.admitted_order,
        queued_step=sequence.queued_step,
        arrival=group.arrival,
        prompt=request.shown_prompt[:400],
        text=text[-2000:],
        wait=sequence.wait,
    )
