"""What is shown, kept up to date from batches alone: pool, sequences, counters, log.

``apply`` is the only way in. Applying every batch in order, or a snapshot and what follows it, gives the engine's exact
state. A missed batch is noticed by its number: from then on ``incomplete_since`` is set and nothing is applied until a
snapshot comes. Everything is plain Python and NumPy, of bounded size, and may be read between two calls of ``apply``.
What each event changes stands in sequence_events.py and block_events.py, a function an event.
"""

from __future__ import annotations

from collections import deque

from kvtop.engine import events as e
from kvtop.view import block_events, sequence_events
from kvtop.view.blocks_view import BlocksView
from kvtop.view.event_log import EventLog
from kvtop.view.owner_slots import OwnerSlots
from kvtop.view.pauses import Pauses
from kvtop.view.preemptions import Preemption
from kvtop.view.sequence_view import EndedRequest, SequenceView
from kvtop.view.series import PressureSeries
from kvtop.view.snapshot_load import load_snapshot

ENDED_REQUESTS = 200
ENDED_NAMES = 2_000
HANDLERS = sequence_events.HANDLERS | block_events.HANDLERS
PER_TOKEN = (e.Advanced, e.StepTimed)


class PoolView:
    """``blocks`` and ``swap`` mirror the pool and the swap space; ``sequences`` holds the unfinished ones. The swap
    space knows counts and order only; who holds its blocks stands in the sequences' swap tables."""

    def __init__(self) -> None:
        self.info: e.EngineInfo | None = None
        """None until the first snapshot."""
        self.blocks = BlocksView(0)
        self.swap = BlocksView(0)
        self.sequences: dict[int, SequenceView] = {}
        self.over: dict[str, SequenceView] = {}
        """Request id → its first sequence, where that has ended and the request has not."""
        self.slots = OwnerSlots()
        self.counters = e.Counters()
        self.settings: dict[str, str] = {}
        """Settings that can change while running, as they are now."""
        self.paused = False
        self.pauses = Pauses()
        self.number = 0
        """Number of the last batch applied."""
        self.step = 0
        self.wall_s = 0.0
        self.step_began_s = 0.0
        """Wall time at which the step that the last batch tells of began; that of the batch if it tells of none."""
        self.monotonic_s = 0.0
        self.last_event_id = 0
        self.incomplete_since: int | None = None
        """First event that may be missing, while a batch is missing; None: nothing is."""
        self.log = EventLog()
        self.series = PressureSeries()
        self.last_events: list[e.AnyEvent] = []
        """Events of the last batch, per-token ones included."""
        self.last_advanced: e.Advanced | None = None
        self.last_timing: e.StepTimed | None = None
        self.preemptions: list[Preemption] = []
        """The last ones, oldest first."""
        self.ended: deque[EndedRequest] = deque(maxlen=ENDED_REQUESTS)
        """Requests that are over, oldest first."""
        self.ended_names: dict[int, str] = {}
        """Names of sequences that are over, the last ENDED_NAMES."""
        self.ended_filled_slots = 0
        """Slots that ended sequences had filled."""
        self.ended_unfilled_slots = 0
        """Slots that ended sequences had reserved and never filled."""
        self.admissions = 0
        """The largest ``admitted_order`` given so far."""

    @property
    def block_size(self) -> int:
        return self.info.block_size if self.info else 1

    def block_id(self, block: int) -> int:
        """The number that the engine itself gives to a block, for people: a vLLM keeps its block 0 to itself."""
        return block + self.first_block

    @property
    def first_block(self) -> int:
        """The engine's own number of block 0."""
        return self.info.first_block if self.info else 0

    @property
    def caches_prefixes(self) -> bool:
        """Whether full blocks go into a prefix index (a reservation's never do)."""
        return self.info is not None and self.info.prefix_cache and self.info.policy == "paged"

    def name_of(self, seq: int) -> str:
        """The name of a sequence, also of one that ended lately; ``seq 17`` when it is not known any more."""
        known = self.sequences.get(seq)
        return known.name if known else self.ended_names.get(seq, f"seq {seq}")

    def with_status(self, status: e.SequenceStatus) -> list[SequenceView]:
        """Unfinished sequences in that status, in the order they were made."""
        return [sequence for sequence in self.sequences.values() if sequence.status == status]

    def holders_of(self, block: int) -> list[tuple[SequenceView, int]]:
        """Every sequence whose table holds ``block``, with the logical index it has there."""
        return [(s, s.table.index(block)) for s in self.sequences.values() if block in s.table]

    def apply(self, batch: e.Batch) -> None:
        """Take one batch over. One that is known already is ignored, and so is one that follows a gap."""
        if batch.number <= self.number:
            return
        follows = self.info is not None and self.incomplete_since is None and batch.number == self.number + 1
        if follows:
            self._apply_events(batch)
        elif batch.snapshot is not None:
            load_snapshot(self, batch, batch.snapshot)
        else:
            self.incomplete_since = self.incomplete_since or self.last_event_id + 1
            return
        self.series.add(self)

    def _apply_events(self, batch: e.Batch) -> None:
        self.begin_batch(batch)
        for event in batch.events:
            handler = HANDLERS.get(type(event))
            if handler is not None:
                handler(self, event)
            if not isinstance(event, PER_TOKEN):
                self.log.add(batch.step, batch.wall_s, event)
            self.last_event_id = event.id

    def begin_batch(self, batch: e.Batch) -> None:
        """Number, step and times are those of ``batch``; its events are still to be taken over."""
        self.number = batch.number
        self.step = batch.step
        self.wall_s = batch.wall_s
        self.step_began_s = batch.wall_s
        self.monotonic_s = batch.monotonic_s
        self.last_events = batch.events
        for timed in reversed(batch.events):  # a step's time comes as its last event but for a pause that follows it
            if isinstance(timed, e.StepTimed):
                self.step_began_s -= timed.schedule_s + timed.run_s + timed.update_s
                self.pauses.step_ran(self.step_began_s, batch.wall_s)
                break

    def remember_name(self, sequence: SequenceView) -> None:
        """Keep the name of a sequence that is over, for the log."""
        self.ended_names[sequence.seq] = sequence.name
        if len(self.ended_names) > ENDED_NAMES:
            del self.ended_names[next(iter(self.ended_names))]
