"""A trial: one experiment on the engine's scheduler and pool, which visits only sequences to which something happens.

A running sequence gains a token a step and needs nothing, until its last block is full or its answer is complete.
Both moments are known when it is admitted, so a calendar says who is due in a step; all others are quiet, and what they
have follows from the step number. Whoever is due is brought up to date and goes through the scheduler like in the
live engine: same policies, same admission, same victims, same blocks. Where blocks are short everybody is brought up to
date first, so that the victim rule sees the truth.

Unlike in the live engine a prompt is computed whole in the step of its admission, and a preempted sequence may lose
what it generated (``restart``). A request is one sequence: no samples, no beams, no shared prefixes.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from functools import partial
from itertools import repeat

from kvtop.engine.journal import Journal
from kvtop.engine.kv_manager import KvManager
from kvtop.engine.requests import Request
from kvtop.engine.scheduler import Scheduler
from kvtop.engine.sequences import Sequence, Status
from kvtop.lab.counted import CountedKv
from kvtop.lab.experiment import Experiment
from kvtop.lab.holding import Holding
from kvtop.lab.trace import Entry, Loss, Trace
from kvtop.lab.workload import Work

ANY_TOKEN = 1
"""Content is of no account in the lab: no prefix is shared, no token is read."""
STEPS_A_REPORT = 64
QUEUED_AT_ONCE = 64
"""Requests put into an empty queue at a time: who waits far behind its head need not be there yet."""

Due = tuple[int, Sequence]
"""A sequence in the calendar, behind the number of its admission: void once that admission has ended."""


class Trial:
    """``step()`` while it ``has_work``; ``trace`` tells what happened. A step has two halves, ``begin_step`` and
    ``end_step``: between them stands what the trace's figures are of, and ``holdings`` tells it."""

    def __init__(self, experiment: Experiment, work: Seq[Work]) -> None:
        self.experiment = experiment
        self.trace = Trace()
        self.journal = Journal()
        kv_manager = CountedKv if experiment.counted else KvManager
        self.scheduler = Scheduler(experiment.scheduler_config(), self.journal, kv_manager=kv_manager)
        self.roster = self.scheduler.roster
        self.kv = self.scheduler.kv
        self._output_tokens: dict[str, int] = {}
        self._origin: dict[int, int] = {}
        self._growing: defaultdict[int, list[Due]] = defaultdict(list)
        self._ending: defaultdict[int, list[Due]] = defaultdict(list)
        self._live_tokens = 0
        self._last_admission = 0
        self._moves_seen = -1
        self._coming = deque(enumerate(work))
        """Behind the queue: they wait like everybody in it, and no policy looks that far."""

    def request(self, number: int) -> Request:
        """The workload's request of that number."""
        return Request(id=str(number), max_tokens=self.experiment.max_tokens)

    def add(self, request: Request, lengths: Work) -> None:
        """Queue a request whose answer will have ``lengths.output_tokens`` tokens."""
        self._output_tokens[request.id] = lengths.output_tokens
        self._moves_seen = -1
        self.roster.add(request, [ANY_TOKEN] * lengths.prompt_tokens)

    @property
    def has_work(self) -> bool:
        return bool(self._coming) or self.scheduler.has_work

    @property
    def waiting(self) -> int:
        """Requests that wait, first ones and preempted ones."""
        return len(self.roster.waiting) + len(self._coming)

    @property
    def ended(self) -> int:
        """Requests that are done with, one way or another."""
        return self.scheduler.counters.completed + self.scheduler.counters.rejected

    def run(self, report: Callable[[int], None] = lambda ended: None) -> Trace:
        """Step to the end; ``report`` is told now and then how many requests have ended."""
        while self.has_work:
            self.step()
            if self.roster.step % STEPS_A_REPORT == 0:
                report(self.ended)
        report(self.ended)
        self.trace.rejected = self.scheduler.counters.rejected
        return self.trace

    def step(self) -> None:
        """Running sequences take what their next token needs, the queue is admitted, everybody gains a token."""
        self.begin_step()
        self.end_step()

    def begin_step(self) -> None:
        """Running sequences take what their next token needs, and the queue is admitted."""
        self.scheduler.begin_step()
        step = self.roster.step
        self.grow(self._take_due(self._growing, step))
        if self.roster.moves != self._moves_seen:  # else the head of the queue waits for the same reason as before
            self._admit(step)
        self.trace.add_step(len(self.roster.running), self._live_tokens, self.kv.pool.num_active * self.kv.block_size)

    def end_step(self) -> None:
        """Every running sequence gains a token, and leaves when its answer is complete."""
        step = self.roster.step
        self._live_tokens += len(self.roster.running)
        for _, sequence in self._take_due(self._ending, step):
            self._finish(sequence, step)
        self.journal.drain()

    def holdings(self) -> Iterator[Holding]:
        """Of every running sequence, in admission order; between the halves of a step."""
        step = self.roster.step
        for sequence in self.roster.running:
            yield Holding(
                sequence.request.id,
                sequence.admitted_order,
                sequence.table.block_ids,
                self.kv.slots_held(sequence),
                step - self._origin[sequence.seq],
                min(sequence.prompt_len + self._output_tokens[sequence.request.id], self.experiment.max_model_len),
            )

    def stuck_slots(self) -> int:
        """External fragmentation: all free slots, while the head of the queue waits for a hole though together they
        would do; else 0. Between the halves of a step."""
        head = self.roster.waiting[0] if self.roster.waiting else None
        if head is None or head.wait is None or head.wait.reason != "blocks" or not self.kv.policy.contiguous:
            return 0
        free = self.kv.pool.num_free
        return free * self.kv.block_size if self.kv.blocks_to_hold(head, len(head.tokens)) <= free else 0

    # --- the queue ----------------------------------------------------------------------------------------------------

    def _admit(self, step: int) -> None:
        """Admit from the queue, and from what comes behind it, until a rule keeps its head out."""
        self.scheduler.admit()
        while self._coming and not self.roster.waiting:
            for _ in range(min(QUEUED_AT_ONCE, len(self._coming))):
                number, lengths = self._coming.popleft()
                self.add(self.request(number), lengths)
            self.scheduler.admit()
        self._enter_admitted(step)
        self._moves_seen = self.roster.moves

    # --- memory -------------------------------------------------------------------------------------------------------

    def grow(self, due: list[Due]) -> None:
        """Give each the block that its next token needs. Whoever is preempted before its turn asks for nothing."""
        for _, sequence in due:
            if sequence.status is Status.RUNNING:
                self.take_block(sequence)

    def take_block(self, sequence: Sequence) -> list[Sequence]:
        """Give a running sequence its next block; who was preempted for it, itself perhaps."""
        self._catch_up(sequence, self.roster.step)
        tokens = len(sequence.tokens)
        lost: list[Sequence] = []
        if self.kv.can_take(self.kv.blocks_needed(sequence, tokens)):
            self.kv.grow(sequence, tokens, sequence.last_event)
        else:
            lost = self.at_the_cost_of_others(partial(self.scheduler.make_room, sequence, tokens))
        if sequence.status is Status.RUNNING:
            self._enter_next_growth(sequence)
        return lost

    def at_the_cost_of_others(self, take: Callable[[], object]) -> list[Sequence]:
        """Do something that may preempt: bring everybody up to date before it, and book who runs no more after it."""
        before = list(self.roster.running)
        for sequence in before:
            self._catch_up(sequence, self.roster.step)
        take()
        lost = [sequence for sequence in before if sequence.status is not Status.RUNNING]
        for sequence in lost:
            self._book_loss(sequence)
        return lost

    def _book_loss(self, sequence: Sequence) -> None:
        del self._origin[sequence.seq]
        self._live_tokens -= len(sequence.tokens)
        if sequence.status is Status.FINISHED:
            self.trace.exhausted += 1
            return
        self.trace.losses.append(Loss(self.roster.step, sequence.seq, len(sequence.tokens), sequence.generated))
        if self.experiment.preempted == "restart":
            self.trace.thrown_away_tokens += sequence.generated
            del sequence.tokens[sequence.prompt_len :]

    # --- time ---------------------------------------------------------------------------------------------------------

    def _take_due(self, calendar: defaultdict[int, list[Due]], step: int) -> list[Due]:
        """Whoever is due in this step, in admission order."""
        if step not in calendar:
            return []
        due = calendar.pop(step)
        return sorted(d for d in due if d[1].status is Status.RUNNING and d[1].admitted_order == d[0])

    def _catch_up(self, sequence: Sequence, step: int) -> None:
        """Bring a running sequence to where it stands at the start of ``step``."""
        lag = step - self._origin[sequence.seq] - len(sequence.tokens)
        sequence.tokens.extend(repeat(ANY_TOKEN, lag))
        sequence.computed = len(sequence.tokens) - 1

    def _enter_admitted(self, step: int) -> None:
        """Compute what was admitted in this step, and enter into the calendar what will happen to it."""
        for sequence in self._admitted():
            tokens = len(sequence.tokens)
            self.trace.entries.append(Entry(step, sequence.seq, tokens, sequence.prompt_len, sequence.preemptions > 0))
            self._live_tokens += tokens
            self._origin[sequence.seq] = step - tokens
            self._ending[step + self._tokens_to_come(sequence) - 1].append((sequence.admitted_order, sequence))
            self._enter_next_growth(sequence)
            sequence.computed = tokens
            self.roster.end_prefill(sequence)
            sequence.tokens.append(ANY_TOKEN)

    def _admitted(self) -> list[Sequence]:
        running = self.roster.running
        first = len(running)
        while first and running[first - 1].admitted_order > self._last_admission:
            first -= 1
        admitted = running[first:]
        if admitted:
            self._last_admission = admitted[-1].admitted_order
        return admitted

    def _tokens_to_come(self, sequence: Sequence) -> int:
        left = self._output_tokens[sequence.request.id] - sequence.generated
        return max(1, min(left, self.experiment.max_model_len - len(sequence.tokens)))

    def _enter_next_growth(self, sequence: Sequence) -> None:
        """The first step at whose start its tokens, and what is looked ahead, outnumber the slots of its table."""
        if not self.experiment.reserves:
            slots = len(sequence.table) * self.kv.block_size - self.experiment.lookahead_slots
            self._growing[self._origin[sequence.seq] + slots + 1].append((sequence.admitted_order, sequence))

    def _finish(self, sequence: Sequence, step: int) -> None:
        """Its last token came in this step."""
        self._catch_up(sequence, step + 1)
        del self._origin[sequence.seq]
        self._live_tokens -= len(sequence.tokens)
        self.roster.finish(sequence, "length")
