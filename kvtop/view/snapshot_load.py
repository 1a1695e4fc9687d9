"""How a snapshot replaces the state of a PoolView.

What a snapshot does not tell (times, owner slots, the log) is kept for whatever lives on; blocks that differ from what
was known count as changed now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from kvtop.engine.events import Advanced, Batch, Completed, Rejected, Snapshot, StepTimed, Warned
from kvtop.view.blocks_view import UNKNOWN_PARENT, BlocksView
from kvtop.view.sequence_events import list_completed, list_rejected
from kvtop.view.sequence_view import from_state

if TYPE_CHECKING:
    from kvtop.view.pool_view import PoolView


def load_snapshot(view: PoolView, batch: Batch, snapshot: Snapshot) -> None:
    """Replace ``view``'s state by the snapshot that ``batch`` carries."""
    info = snapshot.info
    if view.info is None or (view.info.num_blocks, view.info.swap_blocks) != (info.num_blocks, info.swap_blocks):
        view.blocks = BlocksView(info.num_blocks)
        view.swap = BlocksView(info.swap_blocks)
    if view.number and (view.incomplete_since is not None or batch.number != view.number + 1):
        first = view.incomplete_since or view.last_event_id + 1
        missed = f"events {first:,} to {snapshot.last_event_id:,} were missed; the state is whole again"
        view.log.add(batch.step, batch.wall_s, Warned(id=0, message=missed))
    view.info = info
    view.begin_batch(batch)
    view.incomplete_since = None
    view.last_event_id = snapshot.last_event_id
    view.counters = msgspec.structs.replace(snapshot.counters)
    view.settings = dict(snapshot.settings)
    view.paused = snapshot.paused
    view.pauses.note(view.paused, view.wall_s)
    _take_news(view, batch)
    _load_sequences(view, snapshot)
    _load_blocks(view, snapshot)
    _load_swap(view, snapshot)


def _take_news(view: PoolView, batch: Batch) -> None:
    """The batch's events are part of the state already, but still news."""
    for event in batch.events:
        if isinstance(event, Rejected):
            list_rejected(view, event)
        elif isinstance(event, Completed):
            list_completed(view, event)
        if not isinstance(event, Advanced | StepTimed):
            view.log.add(batch.step, batch.wall_s, event)


def _load_sequences(view: PoolView, snapshot: Snapshot) -> None:
    before = view.sequences
    view.sequences = {state.seq: from_state(state) for state in sorted(snapshot.sequences, key=lambda s: s.seq)}
    for seq, sequence in before.items():
        if seq in view.sequences:
            view.sequences[seq].keep_times_of(sequence)
        else:
            view.remember_name(sequence)
            view.slots.release(seq)
    for sequence in view.sequences.values():
        sequence.life.enter(sequence.phase, view.step, view.wall_s)
        sequence.life.hold(view.step, len(sequence.table))
    alive = {sequence.request_id for sequence in view.sequences.values()}
    view.over = {request_id: sequence for request_id, sequence in view.over.items() if request_id in alive}
    for sequence in sorted(view.sequences.values(), key=lambda s: s.admitted_order):
        if sequence.admitted_order:
            view.slots.assign(sequence.seq)
            view.admissions = max(view.admissions, sequence.admitted_order)


def _load_blocks(view: PoolView, snapshot: Snapshot) -> None:
    blocks = view.blocks
    hashes = np.frombuffer(snapshot.hashes, "<u8")
    untold = np.where(hashes != 0, np.uint64(UNKNOWN_PARENT), np.uint64(0))
    blocks.load(
        ref_counts=np.frombuffer(snapshot.ref_counts, "<u4").astype(np.int32),
        hashes=hashes,
        parents=np.frombuffer(snapshot.parents, "<u8") if snapshot.parents else untold,
        owners=np.frombuffer(snapshot.owners, "<i8"),
        fills=np.frombuffer(snapshot.fills, "<u2").astype(np.int32),
        order=np.frombuffer(snapshot.queue or snapshot.free + snapshot.cached, "<i4"),
        step=view.step,
    )
    tables = [(s.seq, np.array(s.table)) for s in view.sequences.values() if s.table]
    for seq, table in sorted(tables, key=lambda entry: -entry[0]):
        blocks.holders[table] = seq  # the smallest number comes last and stays, where the owner holds the block no more
    for seq, table in tables:
        blocks.holders[table[blocks.owners[table] == seq]] = seq


def _load_swap(view: PoolView, snapshot: Snapshot) -> None:
    count = view.swap.num_blocks
    ref_counts = np.zeros(count, np.int32)
    for sequence in view.sequences.values():
        ref_counts[sequence.swap_table] += 1
    view.swap.load(
        ref_counts=ref_counts,
        hashes=np.zeros(count, np.uint64),
        parents=np.zeros(count, np.uint64),
        owners=np.zeros(count, np.int64),
        fills=np.zeros(count, np.int32),
        order=np.frombuffer(snapshot.swap_free, "<i4"),
        step=view.step,
    )
