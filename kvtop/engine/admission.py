"""Admission: may the head of a queue start to run now, and if not, why.

Reads the roster and the block pool, changes neither; what it finds goes to the journal with its numbers. The rules in
order: a seat under max_num_seqs, tokens left in the step, the preemption bound, blocks, the watermark.
"""

from __future__ import annotations

from kvtop.engine.config import SchedulerConfig
from kvtop.engine.events import Admitted, Resumed, WaitReason, Waits
from kvtop.engine.journal import Journal
from kvtop.engine.kv_manager import KvManager
from kvtop.engine.roster import Roster
from kvtop.engine.sequences import Sequence, common_prefix_len


class Admission:
    """Watermark w: with something running, an admission must leave w x num_blocks blocks free or evictable."""

    def __init__(self, config: SchedulerConfig, roster: Roster, kv: KvManager, journal: Journal) -> None:
        self.config = config
        self.roster = roster
        self.kv = kv
        self.journal = journal

    def why_not(self, head: Sequence, needed: int, tokens: int, budget: int) -> WaitReason | None:
        """The first rule that keeps it out; None when it may enter. ``needed`` blocks are taken from free and cached
        ones; it wants at least ``tokens`` of the step's ``budget``."""
        if not self.has_seat(head):
            return "seats"
        if budget < tokens:
            return "token_budget"
        if self.protected(head) and self._protected_other_runs(head):
            return "preemption_bound"
        if not self.kv.can_take(needed + (0 if self.kv.policy.contiguous else self.promised())):
            return "blocks"
        left = self.kv.pool.num_available - needed
        if self.roster.running and left < self.config.watermark * self.config.num_blocks:
            return "watermark"
        return None

    def has_seat(self, head: Sequence) -> bool:
        """Whether max_num_seqs has room for it. A beam search takes all its seats with its first beam, since its
        beams only move together; a later beam of it has its seat already."""
        if not self.roster.beam_searches:
            return len(self.roster.running) < self.config.max_num_seqs
        widths = {
            sequence.request.id: sequence.request.beam_width
            for sequence in self.roster.running
            if sequence.request.beam_width
        }
        if head.request.id in widths:
            return True
        single = sum(1 for sequence in self.roster.running if not sequence.request.beam_width)
        return single + sum(widths.values()) + max(1, head.request.beam_width) <= self.config.max_num_seqs

    def promised(self) -> int:
        """Blocks that sequences still in prefill will take for tokens they were admitted with."""
        return sum(
            self.kv.blocks_needed(sequence, len(sequence.tokens)) for sequence in self.roster.prefilling.values()
        )

    def must_wait_for(self, head: Sequence, siblings: list[Sequence]) -> bool:
        """Whether a sibling is still computing tokens that this one could share: waiting a step beats doing it
        twice."""
        if self.kv.policy.contiguous:
            return False
        limit = len(head.tokens) - 1
        return any(
            sibling.to_compute > 1 and sibling.computed < min(limit, common_prefix_len(head, sibling))
            for sibling in siblings
        )

    def can_start_fork(self, parent: Sequence, pledged: int) -> bool:
        """Whether there is a seat, and beside ``pledged`` blocks one more for what the fork writes next."""
        if self.kv.policy.contiguous or not self.has_seat(parent):
            return False
        return self.kv.can_take(self.promised() + pledged + 1)

    def protected(self, sequence: Sequence) -> bool:
        """Preempted as often as allowed: no victim any more, and at most one such sequence runs."""
        return sequence.preemptions >= self.config.max_preemptions

    def _protected_other_runs(self, head: Sequence) -> bool:
        beams = self.roster.groups[head.request.id].beams is not None
        return any(
            self.protected(sequence) and not (beams and sequence.request is head.request)
            for sequence in self.roster.running
        )

    def report_wait(self, head: Sequence, reason: WaitReason, needed: int) -> None:
        """Tell why the head waits, when that changed; for a region also when there is room, but not in one piece."""
        known, free = head.wait, self.kv.pool.num_free
        same = known is not None and (known.reason, known.needed) == (reason, needed)
        in_pieces_now = known is not None and self.kv.policy.contiguous and known.free < needed <= free
        if same and not in_pieces_now:
            return
        head.wait = Waits(
            id=self.journal.last_id + 1,
            cause=head.last_event,
            seq=head.seq,
            reason=reason,
            needed=needed,
            free=free,
            cached=self.kv.pool.num_cached,
            promised=self.promised(),
            watermark_blocks=self.config.watermark * self.config.num_blocks,
            running=len(self.roster.running),
        )
        self.journal.append(head.wait)

    def report_admitted(self, head: Sequence, needed: int, cached_tokens: int, shared: int) -> int:
        return self.journal.add(
            Admitted,
            head.wait.id if head.wait else head.last_event,
            seq=head.seq,
            tokens=len(head.tokens),
            cached_tokens=cached_tokens,
            needed=needed,
            free=self.kv.pool.num_free,
            cached=self.kv.pool.num_cached,
            promised=self.promised(),
            watermark_blocks=self.config.watermark * self.config.num_blocks,
            running=len(self.roster.running) + 1,
            waited_steps=self.roster.step - head.queued_step,
            shared=shared,
        )

    def report_resumed(self, head: Sequence, needed: int, cached_tokens: int, seats: int, shared: int = 0) -> int:
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
            running=len(self.roster.running) + seats,
            waited_steps=self.roster.step - head.queued_step,
            shared=shared,
        )
