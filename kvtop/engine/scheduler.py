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

from bisect import insort

from kvtop.engine.beams import beam_search
from kvtop.engine.config import SchedulerConfig
from kvtop.engine.events import (
    Admitted,
    Completed,
    Counters,
    Finished,
    FinishReason,
    Preempted,
    PreemptMode,
    Queued,
    Rejected,
    Resumed,
    WaitReason,
    Waits,
    Warned,
)
from kvtop.engine.groups import RequestGroup
from kvtop.engine.journal import Journal
from kvtop.engine.kv_manager import KvManager, Prefix
from kvtop.engine.plan import Scheduled, StepPlan
from kvtop.engine.policies import VICTIM_RULE
from kvtop.engine.requests import Request
from kvtop.engine.sequences import Sequence, Status, common_prefix_len
from kvtop.engine.tables import BlockTable


class Scheduler:
    """Queues of sequences over a KvManager.

    ``running`` is in admission order; ``waiting`` and ``swapped`` by priority, then arrival. ``groups`` holds every
    unfinished request by its id.
    """

    def __init__(self, config: SchedulerConfig, journal: Journal, eos_token_ids: frozenset[int] = frozenset()) -> None:
        self.config = config
        self.journal = journal
        self.eos_token_ids = eos_token_ids
        self.counters = Counters()
        self.kv = KvManager(config, journal, self.counters)
        self.groups: dict[str, RequestGroup] = {}
        self.running: list[Sequence] = []
        self.waiting: list[Sequence] = []
        self.swapped: list[Sequence] = []
        self.step = 0
        self._entries: dict[int, Scheduled] = {}
        self._moved = False  # whether this step let somebody in, preempted or ended somebody
        self._budget = 0
        self._next_seq = 1
        self._next_arrival = 1
        self._next_admission = 1

    @property
    def has_work(self) -> bool:
        return bool(self.groups)

    # --- adding and ending --------------------------------------------------------------------------------------------

    def add(self, request: Request, prompt: list[int], cause: int = 0, text: str = "") -> bool:
        """Queue a request whose prompt is tokenized; False when it can never run and was rejected."""
        if request.id in self.groups:
            raise ValueError(f"request id {request.id!r} is in use by an unfinished request")
        self.counters.requests += 1
        sequence = self._new_sequence(request, list(prompt), len(prompt), 0)
        needed = self.kv.blocks_to_hold(sequence, len(prompt))
        reason = self._why_never(request, len(prompt), needed)
        if reason:
            self.counters.rejected += 1
            self.journal.add(
                Rejected,
                cause,
                request_id=request.id,
                reason=reason,
                needed_blocks=needed,
                num_blocks=self.config.num_blocks,
                prompt_tokens=len(prompt),
            )
            return False
        beams = beam_search(request, len(prompt), self.config.max_model_len, self.eos_token_ids)
        group = RequestGroup(request, list(prompt), self._next_arrival, live=[sequence], beams=beams)
        self._next_arrival += 1
        self.groups[request.id] = group
        sequence.queued_event = sequence.last_event = self.journal.add(
            Queued,
            cause,
            seq=sequence.seq,
            request_id=request.id,
            prompt_tokens=len(prompt),
            max_tokens=request.max_tokens,
            n=request.n,
            beam_width=request.beam_width,
            priority=request.priority,
            prompt=text[:400],
        )
        self.enqueue(sequence)
        return True

    def _why_never(self, request: Request, prompt_len: int, needed: int) -> str:
        config = self.config
        if prompt_len > config.max_model_len:
            return f"the prompt has {prompt_len} tokens, max_model_len is {config.max_model_len}"
        if needed > config.num_blocks:
            what = f"{config.policy} reserves" if self.kv.policy.contiguous else f"its {prompt_len} prompt tokens need"
            return f"{what} {needed} blocks of {config.block_size} tokens, the pool has {config.num_blocks}"
        for name in ("max_num_seqs", "max_num_batched_tokens"):
            if request.beam_width > getattr(config, name):
                return f"{request.beam_width} beams run together, {name} is {getattr(config, name)}"
        if request.beam_width and self.kv.policy.contiguous:
            return f"beams share and fork their blocks at every step, {config.policy} keeps one region a sequence"
        return ""

    def _new_sequence(self, request: Request, tokens: list[int], prompt_len: int, index: int) -> Sequence:
        size = self.config.block_size
        sequence = Sequence(
            self._next_seq,
            request,
            index,
            tokens,
            prompt_len,
            BlockTable(size),
            BlockTable(size),
            queued_step=self.step,
        )
        self._next_seq += 1
        return sequence

    def fork(self, parent: Sequence, index: int) -> Sequence:
        """A new sequence with the parent's tokens; the caller makes it share or wait."""
        child = self._new_sequence(parent.request, list(parent.tokens), parent.prompt_len, index)
        child.high_water = parent.computed
        child.cumulative_logprob = parent.cumulative_logprob
        self.groups[parent.request.id].live.append(child)
        return child

    def enqueue(self, sequence: Sequence) -> None:
        """Put it in the queue by priority, then arrival: a preempted sequence comes before all that never ran."""
        sequence.status = Status.WAITING
        sequence.queued_step = self.step
        sequence.wait = None
        insort(self.waiting, sequence, key=self._queue_order)

    def sort_queues(self) -> None:
        """A priority changed: put the queues in order again."""
        self.waiting.sort(key=self._queue_order)
        self.swapped.sort(key=self._queue_order)

    def _queue_order(self, sequence: Sequence) -> tuple[int, int, int]:
        return sequence.request.priority, self.groups[sequence.request.id].arrival, sequence.index

    def finish(
        self,
        sequence: Sequence,
        reason: FinishReason,
        cause: int = 0,
        stop_reason: str | int | None = None,
        message: str = "",
    ) -> None:
        """End one sequence and give its blocks back; the last one completes the request."""
        group = self.groups[sequence.request.id]
        sequence.finish_reason, sequence.stop_reason = reason, stop_reason
        finished = self.journal.add(
            Finished,
            cause or sequence.last_event,
            seq=sequence.seq,
            request_id=sequence.request.id,
            reason=reason,
            generated=sequence.generated,
            stop_reason=stop_reason,
            message=message,
        )
        self._moved = True
        self._unschedule(sequence)
        self._leave_queues(sequence)
        sequence.status = Status.FINISHED
        self.kv.drop_swapped(sequence, finished)
        self.kv.release(sequence, finished)
        group.settle(sequence)
        if reason != "pruned":
            group.reasons[sequence.index] = reason
            group.generated += sequence.generated
        if not group.live and group.beams is None:
            self._complete(group, finished)

    def _complete(self, group: RequestGroup, cause: int, answer: list[int] | None = None, text: str = "") -> None:
        del self.groups[group.request.id]
        self.counters.completed += 1
        self.journal.add(
            Completed,
            cause,
            request_id=group.request.id,
            reasons=[group.reasons[index] for index in sorted(group.reasons)],
            prompt_tokens=len(group.prompt),
            cached_tokens=group.cached_tokens,
            generated=len(answer) if answer is not None else group.generated,
            preemptions=group.preemptions,
            recomputed_tokens=group.recomputed_tokens,
            swapped_blocks=group.swapped_blocks,
            answer=answer or [],
            answer_text=text,
        )

    def end_group(
        self, group: RequestGroup, reason: FinishReason, cause: int, message: str = "", text: str = ""
    ) -> None:
        """End everything that still belongs to a request. For a beam search ``text`` is its best answer's."""
        if group.beams is None:
            for sequence in list(group.live):
                self.finish(sequence, reason, cause, message=message)
            return
        best = group.beams.best(group.live)
        group.reasons[0] = reason
        for sequence in list(group.live):
            self.finish(sequence, "pruned", cause, message=message)
        self._complete(group, cause, best, text)

    def _leave_queues(self, sequence: Sequence) -> None:
        for queue in (self.running, self.waiting, self.swapped):
            if sequence in queue:
                queue.remove(sequence)

    # --- the step -----------------------------------------------------------------------------------------------------

    def schedule(self) -> StepPlan:
        """Decide the next step. Whoever is in the plan has every block that its tokens need."""
        self.step += 1
        self._entries = {}
        self._moved = False
        self._budget = self.config.max_num_batched_tokens
        self._schedule_running()
        self._swap_in()
        self._admit()
        if not self._entries and not self._moved:
            self._break_standstill()
        plan = StepPlan(self.step, list(self._entries.values()), self.kv.transfers)
        self.kv.transfers = []
        return plan

    def _schedule_running(self) -> None:
        for sequence in list(self.running):
            if sequence.status is not Status.RUNNING or self._budget <= 0:
                continue
            count = self._tokens_now(sequence)
            if count > 0 and self._make_room(sequence, sequence.computed + count):
                self._enter(sequence, count)

    def _tokens_now(self, sequence: Sequence) -> int:
        """Tokens a running sequence may compute in this step. Beams compute their last known token in the same step,
        since they are compared with each other after it; until all can, each holds that token back."""
        wanted = sequence.to_compute
        if self._is_beam(sequence):
            group = self.groups[sequence.request.id]
            unscheduled = sum(1 for beam in group.live if beam.seq not in self._entries)
            if not group.may_decode() or self._budget < unscheduled:
                wanted -= 1
        return min(wanted, self._budget)

    def _is_beam(self, sequence: Sequence) -> bool:
        return sequence.generated > 0 and self.groups[sequence.request.id].beams is not None

    def _enter(self, sequence: Sequence, count: int) -> None:
        entry = Scheduled(sequence, sequence.computed, count)
        if count == sequence.to_compute:
            group = self.groups[sequence.request.id]
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

    def _make_room(self, sequence: Sequence, tokens: int) -> bool:
        """Give a running sequence the blocks for ``tokens`` tokens, at the cost of others if need be. False when it was
        the victim itself, or ended because nobody was left to preempt."""
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
        own = self.groups[needing.request.id].unit(needing)
        if all(sequence in own for sequence in self.running):
            return None
        unprotected = [sequence for sequence in self.running if not self._protected(sequence)]
        return VICTIM_RULE[self.config.victim](unprotected or self.running)

    def _protected(self, sequence: Sequence) -> bool:
        return sequence.preemptions >= self.config.max_preemptions

    def _protected_other_runs(self, head: Sequence) -> bool:
        beams = self.groups[head.request.id].beams is not None
        return any(
            self._protected(sequence) and not (beams and sequence.request is head.request) for sequence in self.running
        )

    def preempt(self, victim: Sequence, mode: PreemptMode, rule: str, cause: int, needed_by: int = 0) -> None:
        """Take a running sequence's blocks (and those of all beams beside it); it will be recomputed, or is swapped
        out."""
        unit = self.groups[victim.request.id].unit(victim)
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
        self._moved = True
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
        self.running.remove(sequence)
        if mode == "recompute":
            self.enqueue(sequence)
        else:
            sequence.status = Status.SWAPPED
            sequence.queued_step = self.step
            insort(self.swapped, sequence, key=self._queue_order)
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
        while self.swapped:
            head = self.swapped[0]
            unit = self.groups[head.request.id].unit(head)
            needed = self.kv.blocks_to_swap_in(unit)
            if self._never_fits(head, needed):
                continue
            if not self._may_enter(head, needed, len(unit)):
                return
            resumed = self._report_resumed(head, needed, 0, len(unit))
            for sequence in unit:
                self.swapped.remove(sequence)
            self.kv.swap_in(unit, resumed)
            for sequence in unit:
                self._start_running(sequence, resumed)
            for sequence in unit:
                self._compute_first(sequence, resumed)

    def _admit(self) -> None:
        while self.waiting:
            head = self.waiting[0]
            group = self.groups[head.request.id]
            siblings = group.running() if len(group.live) > 1 else []
            if self._must_wait_for(head, siblings):
                self._report_wait(head, "siblings", 0)
                return
            if self._never_fits(head, self.kv.blocks_to_hold(head, len(head.tokens))):
                continue
            prefix = self.kv.find_prefix(head, siblings)
            needed = self.kv.blocks_to_admit(head, prefix)
            if self.swapped:
                self._report_wait(head, "swapped_first", needed)
                return
            if not self._may_enter(head, needed, 1):
                return
            self._admit_head(head, prefix, needed)

    def _must_wait_for(self, head: Sequence, siblings: list[Sequence]) -> bool:
        """Whether a sibling is still computing tokens that this one could share: waiting a step beats doing it
        twice."""
        if self.kv.policy.contiguous:
            return False
        limit = len(head.tokens) - 1
        return any(
            sibling.to_compute > 1 and sibling.computed < min(limit, common_prefix_len(head, sibling))
            for sibling in siblings
        )

    def _may_enter(self, head: Sequence, needed: int, tokens: int) -> bool:
        """Whether the head of a queue can start to run now; if not, why is reported."""
        reason = self._why_not(head, needed, tokens)
        if reason is not None:
            self._report_wait(head, reason, needed)
        return reason is None

    def _why_not(self, head: Sequence, needed: int, tokens: int) -> WaitReason | None:
        if not self._has_seat(head):
            return "seats"
        if self._budget < tokens:
            return "token_budget"
        if self._protected(head) and self._protected_other_runs(head):
            return "preemption_bound"
        if not self.kv.can_take(needed + (0 if self.kv.policy.contiguous else self._promised())):
            return "blocks"
        left = self.kv.pool.num_available - needed
        if self.running and left < self.config.watermark * self.config.num_blocks:
            return "watermark"
        return None

    def _has_seat(self, head: Sequence) -> bool:
        """Whether max_num_seqs has room for it. A beam search takes all its seats with its first beam, since its
        beams only move together; a later beam of it has its seat already."""
        widths = {
            sequence.request.id: sequence.request.beam_width for sequence in self.running if sequence.request.beam_width
        }
        if head.request.id in widths:
            return True
        single = sum(1 for sequence in self.running if not sequence.request.beam_width)
        return single + sum(widths.values()) + max(1, head.request.beam_width) <= self.config.max_num_seqs

    def _promised(self) -> int:
        """Blocks that sequences still in prefill will take for tokens they were admitted with."""
        return sum(
            self.kv.blocks_needed(sequence, len(sequence.tokens))
            for sequence in self.running
            if sequence.to_compute > 1
        )

    def _report_wait(self, head: Sequence, reason: WaitReason, needed: int) -> None:
        known = head.wait
        if known is not None and (known.reason, known.needed) == (reason, needed):
            return
        head.wait = Waits(
            id=self.journal.last_id + 1,
            cause=head.last_event,
            seq=head.seq,
            reason=reason,
            needed=needed,
            free=self.kv.pool.num_free,
            cached=self.kv.pool.num_cached,
            promised=self._promised(),
            watermark_blocks=self.config.watermark * self.config.num_blocks,
            running=len(self.running),
        )
        self.journal.append(head.wait)

    def _admit_head(self, head: Sequence, prefix: Prefix, needed: int) -> None:
        del self.waiting[0]
        if head.admitted_order:
            event = self._report_resumed(head, needed, prefix.tokens, 1)
        else:
            event = self._report_admitted(head, needed, prefix.tokens)
            if head.high_water == 0:
                head.cached_tokens = prefix.tokens
                self.counters.prompt_tokens += head.prompt_len
        self.kv.adopt(head, prefix, event)
        self._start_running(head, event)
        self._compute_first(head, event)

    def _compute_first(self, sequence: Sequence, event: int) -> None:
        """Let a sequence that just came in compute in this step; its blocks were counted when it was let in."""
        count = min(sequence.to_compute - self._is_beam(sequence), self._budget)
        if count <= 0:
            return
        self.kv.grow(sequence, sequence.computed + count, event)
        self._enter(sequence, count)

    def _start_running(self, sequence: Sequence, event: int) -> None:
        self._moved = True
        sequence.status = Status.RUNNING
        sequence.admitted_order = self._next_admission
        self._next_admission += 1
        sequence.last_event = event
        sequence.wait = None
        sequence.preempt_mode = None
        self.running.append(sequence)

    def start_fork(self, parent: Sequence, child: Sequence, event: int) -> None:
        """A forked sequence runs at once, beside its parent and as old as it: it belongs to the same admission."""
        child.status = Status.RUNNING
        child.admitted_order = parent.admitted_order
        child.last_event = event
        place = self.running.index(parent) + 1
        while place < len(self.running) and self.running[place].admitted_order == parent.admitted_order:
            place += 1
        self.running.insert(place, child)

    def can_start_fork(self, parent: Sequence, pledged: int) -> bool:
        """Whether there is a seat, and beside ``pledged`` blocks one more for what the fork writes next."""
        if self.kv.policy.contiguous or not self._has_seat(parent):
            return False
        return self.kv.can_take(self._promised() + pledged + 1)

    def _report_admitted(self, head: Sequence, needed: int, cached_tokens: int) -> int:
        return self.journal.add(
            Admitted,
            head.wait.id if head.wait else head.last_event,
            seq=head.seq,
            tokens=len(head.tokens),
            cached_tokens=cached_tokens,
            needed=needed,
            free=self.kv.pool.num_free,
            cached=self.kv.pool.num_cached,
            promised=self._promised(),
            watermark_blocks=self.config.watermark * self.config.num_blocks,
            running=len(self.running) + 1,
            waited_steps=self.step - head.queued_step,
        )

    def _report_resumed(self, head: Sequence, needed: int, cached_tokens: int, seats: int) -> int:
        return self.journal.add(
            Resumed,
            head.wait.id if head.wait else head.last_event,
            seq=head.seq,
            mode=head.preempt_mode or "recompute",
            tokens=len(head.tokens),
            cached_tokens=cached_tokens,
            needed=needed,
            free=self.kv.pool.num_free,
            cached=self.kv.pool.num_cached,
            running=len(self.running) + seats,
            waited_steps=self.step - head.queued_step,
        )

    def _exhaust(self, sequence: Sequence, cause: int, message: str) -> None:
        """The pool is too small for it even alone; what it generated is kept. Beams end together."""
        group = self.groups[sequence.request.id]
        if group.beams is None:
            self.finish(sequence, "pool_exhausted", cause, message=message)
        else:
            self.end_group(group, "pool_exhausted", cause, message)

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
        if not self.running:
            return
        unprotected = [sequence for sequence in self.running if not self._protected(sequence)]
        last = max(unprotected or self.running, key=self._queue_order)
        group = self.groups[last.request.id]
        if all(sequence in group.live for sequence in self.running):
            message = f"its {len(group.live)} beams together need more than the pool's {self.config.num_blocks} blocks"
            self.end_group(group, "pool_exhausted", last.last_event, message)
        else:
            message = "nothing could move: beams of several requests hold blocks and wait for more"
            warned = self.journal.add(Warned, last.last_event, seq=last.seq, message=message)
            self.preempt(last, self.config.preempt, "last-in-queue", warned)
