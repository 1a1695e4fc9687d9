"""The scheduler: who computes how many tokens in the next step, and who must make room for it.

A step reads from top to bottom in ``schedule``: running sequences first, in admission order, each taking the blocks its
tokens need; where blocks are short somebody is preempted. Then swapped-out sequences come back, then the queue is
admitted, as long as seats, tokens and blocks last. ``settlement.settle`` books what the step computed. Every
decision goes to the journal with its numbers and its cause. No torch, no IO, no clock: the same calls give the same
events.

Progress. The oldest running sequence is never the newest, so under the default rule it always gets its block. Whatever
the rule, a sequence that was preempted ``max_preemptions`` times is no victim any more and only one such sequence
runs at a time, so it runs to its end: preemptions are bounded and the queue drains.
"""

from __future__ import annotations

from kvtop.engine.admission import Admission
from kvtop.engine.config import SchedulerConfig
from kvtop.engine.events import Counters, Preempted, PreemptMode, Warned
from kvtop.engine.groups import RequestGroup
from kvtop.engine.journal import Journal
from kvtop.engine.kv_manager import KvManager, Prefix
from kvtop.engine.plan import Scheduled, StepPlan
from kvtop.engine.policies import VICTIM_RULE
from kvtop.engine.roster import Roster
from kvtop.engine.sequences import Sequence, Status


class Scheduler:
    """The roster's sequences over a KvManager's blocks, a step at a time."""

    def __init__(
        self,
        config: SchedulerConfig,
        journal: Journal,
        eos_token_ids: frozenset[int] = frozenset(),
        kv_manager: type[KvManager] = KvManager,
    ) -> None:
        self.config = config
        self.journal = journal
        self.counters = Counters()
        self.kv = kv_manager(config, journal, self.counters)
        self.roster = Roster(config, self.kv, journal, self.counters, eos_token_ids)
        self.admission = Admission(config, self.roster, self.kv, journal)
        self._entries: dict[int, Scheduled] = {}
        self._budget = 0

    @property
    def has_work(self) -> bool:
        """Whether a request is unfinished."""
        return bool(self.roster.groups)

    def group_of(self, sequence: Sequence) -> RequestGroup:
        return self.roster.groups[sequence.request.id]

    # --- the step -----------------------------------------------------------------------------------------------------

    def schedule(self) -> StepPlan:
        """Decide the next step. Whoever is in the plan has every block that its tokens need."""
        moves = self.roster.moves
        self.begin_step()
        self._schedule_running()
        self._swap_in()
        self.admit()
        if not self._entries and moves == self.roster.moves:
            self._break_standstill()
        plan = StepPlan(self.roster.step, list(self._entries.values()), self.kv.transfers)
        self.kv.transfers = []
        return plan

    def begin_step(self) -> None:
        """The next step, of which nothing is planned yet."""
        self.roster.step += 1
        self._entries = {}
        self._budget = self.config.max_num_batched_tokens

    def _schedule_running(self) -> None:
        for sequence in self._turns():
            if sequence.status is not Status.RUNNING or self._budget <= 0:
                continue
            count = self._tokens_now(sequence)
            if count > 0 and self.make_room(sequence, sequence.computed + count):
                self._enter(sequence, count)

    def _turns(self) -> list[Sequence]:
        """The running sequences in admission order; beams of one request side by side, for they compute together."""
        if not self.roster.beam_searches:
            return list(self.roster.running)
        units = (self.group_of(sequence).unit(sequence) for sequence in self.roster.running)
        return list(dict.fromkeys(sequence for unit in units for sequence in unit))

    def _tokens_now(self, sequence: Sequence) -> int:
        """Tokens a running sequence may compute in this step. Beams compute their last known token in the same step,
        since they are compared with each other after it; until all can, each holds that token back."""
        wanted = len(sequence.tokens) - sequence.computed
        if self._is_beam(sequence):
            group = self.group_of(sequence)
            unscheduled = sum(1 for beam in group.live if beam.seq not in self._entries)
            if not group.may_decode() or self._budget < unscheduled:
                wanted -= 1
        return min(wanted, self._budget)

    def _is_beam(self, sequence: Sequence) -> bool:
        if not self.roster.beam_searches:
            return False
        return sequence.generated > 0 and self.group_of(sequence).beams is not None

    def _enter(self, sequence: Sequence, count: int) -> None:
        entry = Scheduled(sequence, sequence.computed, count)
        if count == sequence.to_compute:
            group = self.group_of(sequence)
            if group.beams is not None:
                entry.candidates = group.beams.candidates
            else:
                entry.draws = sequence.request.n if self._parts_here(sequence, group) else 1
        self._entries[sequence.seq] = entry
        self._budget -= count

    def _parts_here(self, sequence: Sequence, group: RequestGroup) -> bool:
        """Whether parallel samples part after this step: the prompt's first sequence, before it has generated."""
        return sequence.request.n > 1 and sequence.generated == 0 and not group.reasons and len(group.live) == 1

    def _unschedule(self, sequence: Sequence) -> None:
        """Take it out of the plan in the making, and give its tokens back."""
        entry = self._entries.pop(sequence.seq, None)
        if entry is not None:
            self._budget += entry.count

    def make_room(self, sequence: Sequence, tokens: int) -> bool:
        """Give a running sequence the blocks for ``tokens`` tokens, at the cost of others if need be. False when it was
        the victim itself, or ended because nobody was left to preempt."""
        if self.kv.has_room(sequence, tokens):
            return True
        shortage = 0
        while not self.kv.can_take(needed := self.kv.blocks_needed(sequence, tokens)):
            shortage = shortage or self.kv.report_shortage(sequence, tokens, needed, sequence.last_event)
            victim = self._choose_victim(sequence)
            if victim is None:
                left = self.kv.pool.num_available
                self._exhaust(sequence, shortage, f"it needs {needed} more blocks, {left} are left, nobody to preempt")
                return False
            self.preempt(victim, self.config.preempt, self.config.victim, shortage, needed_by=sequence.seq)
            if sequence.status is not Status.RUNNING:
                return False
        self.kv.grow(sequence, tokens, sequence.last_event, shortage)
        return True

    def _choose_victim(self, needing: Sequence) -> Sequence | None:
        """Among running sequences, by the victim rule; one at the preemption bound only when there is no other. None
        when nothing but the one in need (with what moves together with it) runs."""
        own = self.group_of(needing).unit(needing)
        if all(sequence in own for sequence in self.roster.running):
            return None
        unprotected = [sequence for sequence in self.roster.running if not self.admission.protected(sequence)]
        return VICTIM_RULE[self.config.victim](unprotected or self.roster.running)

    def preempt(self, victim: Sequence, mode: PreemptMode, rule: str, cause: int, needed_by: int = 0) -> None:
        """Take a running sequence's blocks (and those of all beams beside it); it will be recomputed, or is swapped
        out."""
        unit = self.group_of(victim).unit(victim)
        swap_full = mode == "swap" and not self.kv.can_swap_out(unit)
        chosen: PreemptMode = "recompute" if swap_full else mode
        tokens = {sequence.seq: sequence.computed for sequence in unit}
        for sequence in unit:
            self._unschedule(sequence)
        if chosen == "swap":
            self.kv.swap_out(unit, cause)
        for sequence in unit:
            self._lose_blocks(sequence, chosen, rule, cause, needed_by, tokens[sequence.seq], swap_full)

    def _lose_blocks(
        self,
        sequence: Sequence,
        mode: PreemptMode,
        rule: str,
        cause: int,
        needed_by: int,
        computed: int,
        swap_full: bool,
    ) -> None:
        held = len(sequence.table)
        sequence.preemptions += 1
        sequence.preempt_mode = mode
        self.counters.preemptions += 1
        if mode == "recompute":
            sequence.high_water = max(sequence.high_water, computed)
        freed = self.kv.would_free(sequence)
        sequence.last_event = self.journal.add(
            Preempted,
            cause,
            seq=sequence.seq,
            rule=rule,
            mode=mode,
            needed_by=needed_by,
            held=held,
            freed=freed,
            tokens=computed,
            preemptions=sequence.preemptions,
            swap_full=swap_full,
        )
        self.kv.release(sequence, sequence.last_event)
        self.roster.stop_running(sequence)
        if mode == "recompute":
            self.roster.enqueue(sequence)
        else:
            self.roster.enqueue_swapped(sequence)
        if sequence.preemptions == self.config.max_preemptions:
            self.journal.add(
                Warned,
                sequence.last_event,
                seq=sequence.seq,
                message=f"preempted {sequence.preemptions} times: it is no victim any more once it runs again. "
                "Admission exceeds memory: lower max_num_seqs, raise the watermark, or give the pool more blocks",
            )

    # --- coming back and coming in ------------------------------------------------------------------------------------

    def _swap_in(self) -> None:
        while self.roster.swapped:
            head = self.roster.swapped[0]
            unit = self.group_of(head).unit(head)
            needed = self.kv.blocks_to_swap_in(unit)
            if self._never_fits(head, needed):
                continue
            if not self._may_enter(head, needed, len(unit)):
                return
            resumed = self.admission.report_resumed(head, needed, 0, len(unit))
            for sequence in unit:
                self.roster.swapped.remove(sequence)
            self.kv.swap_in(unit, resumed)
            for sequence in unit:
                self.roster.start_running(sequence, resumed)
            for sequence in unit:
                self._compute_first(sequence, resumed)

    def admit(self) -> None:
        """Let the head of the queue start to run, again and again, until a rule keeps it out."""
        while self.roster.waiting:
            head = self.roster.waiting[0]
            group = self.group_of(head)
            siblings = group.running() if len(group.live) > 1 else []
            if self.admission.must_wait_for(head, siblings):
                self.admission.report_wait(head, "siblings", 0)
                return
            if self._never_fits(head, self.kv.blocks_to_hold(head, len(head.tokens))):
                continue
            prefix = self.kv.find_prefix(head, siblings)
            needed = self.kv.blocks_to_admit(head, prefix)
            if self.roster.swapped:
                self.admission.report_wait(head, "swapped_first", needed)
                return
            if not self._may_enter(head, needed, 1):
                return
            self._admit_head(head, prefix, needed)

    def _may_enter(self, head: Sequence, needed: int, tokens: int) -> bool:
        """Whether the head of a queue can start to run now; if not, why is reported."""
        reason = self.admission.why_not(head, needed, tokens, self._budget)
        if reason is not None:
            self.admission.report_wait(head, reason, needed)
        return reason is None

    def _admit_head(self, head: Sequence, prefix: Prefix, needed: int) -> None:
        del self.roster.waiting[0]
        shared = self.kv.blocks_to_hold(head, len(head.tokens)) - needed
        if head.admitted_order:
            event = self.admission.report_resumed(head, needed, prefix.tokens, 1, shared)
        else:
            event = self.admission.report_admitted(head, needed, prefix.tokens, shared)
            if head.high_water == 0:
                head.cached_tokens = prefix.tokens
                self.counters.prompt_tokens += head.prompt_len
        self.kv.adopt(head, prefix, event)
        self.roster.start_running(head, event)
        self._compute_first(head, event)

    def _compute_first(self, sequence: Sequence, event: int) -> None:
        """Let a sequence that just came in compute in this step; its blocks were counted when it was let in."""
        count = min(sequence.to_compute - self._is_beam(sequence), self._budget)
        if count <= 0:
            return
        self.kv.grow(sequence, sequence.computed + count, event)
        self._enter(sequence, count)

    def _exhaust(self, sequence: Sequence, cause: int, message: str) -> None:
        """The pool is too small for it even alone; what it generated is kept. Beams end together."""
        group = self.group_of(sequence)
        for member in group.live:
            self._unschedule(member)
        if group.beams is None:
            self.roster.finish(sequence, "pool_exhausted", cause, message=message)
        else:
            self.roster.end_group(group, "pool_exhausted", cause, message)

    def _never_fits(self, head: Sequence, needed: int) -> bool:
        """Whether a sequence outgrew the pool while it waited; then it has ended."""
        if needed <= self.config.num_blocks:
            return False
        message = f"its {len(head.tokens)} tokens need {needed} blocks, the pool has {self.config.num_blocks}"
        self._exhaust(head, head.last_event, message)
        return True

    def _break_standstill(self) -> None:
        """Nothing moves although sequences run: beams hold blocks while some of theirs wait for room. Whoever is last
        in queue order gives way, so that what it frees goes to those before it; alone, the pool is too small."""
        if not self.roster.running:
            return
        unprotected = [sequence for sequence in self.roster.running if not self.admission.protected(sequence)]
        last = max(unprotected or self.roster.running, key=self.roster.queue_order)
        group = self.group_of(last)
        if all(sequence in group.live for sequence in self.roster.running):
            message = f"its {len(group.live)} beams together need more than the pool's {self.config.num_blocks} blocks"
            self.roster.end_group(group, "pool_exhausted", last.last_event, message)
        else:
            message = "nothing could move: beams of several requests hold blocks and wait for more"
            warned = self.journal.add(Warned, last.last_event, seq=last.seq, message=message)
            self.preempt(last, self.config.preempt, "last-in-queue", warned)
