"""The published experiment, with the fault of its program.

There a request that was preempted earlier in the same step still asks for its blocks when the loop reaches it: it asks
for a prompt's worth, and while that many are not free further newest requests are thrown out, though it takes nothing
in the end. About half of the published preemptions are of this kind. All else is the sound trial's.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush

from kvtop.engine.policies import newest
from kvtop.engine.sequences import Sequence, Status
from kvtop.engine.tables import blocks_for
from kvtop.failure import WrongUsage
from kvtop.lab.experiment import NO_LIMIT, Experiment
from kvtop.lab.trial import Due, Trial
from kvtop.lab.workload import Work


class PublishedTrial(Trial):
    """A Trial whose preempted requests go on asking.

    Raises:
        WrongUsage: a request would not fit even alone; the published program has no rule for it.
    """

    def __init__(self, experiment: Experiment, work: Seq[Work]) -> None:
        if experiment.policy != "reserve-max-model-len":  # else it is the size of a reservation, and no limit
            experiment = replace(experiment, max_model_len=NO_LIMIT)
        longest = max((lengths.prompt_tokens + lengths.output_tokens for lengths in work), default=0)
        if longest > experiment.max_model_len:
            raise WrongUsage(
                f"the longest request has {longest:,} tokens, --max-model-len is {experiment.max_model_len:,}; the "
                "published program has no rule for that: raise it, or leave --published out"
            )
        super().__init__(experiment, work)
        most = self._most_slots(work)
        if most > experiment.pool_tokens:
            raise WrongUsage(
                f"the largest request needs {most:,} slots, --pool-tokens is {experiment.pool_tokens:,}; the published "
                "program has no rule for that: raise it, or leave --published out"
            )

    def _most_slots(self, work: Seq[Work]) -> int:
        """Slots that the largest request holds when its last token comes."""
        experiment = self.experiment
        if experiment.policy == "reserve-max-model-len":
            return experiment.max_model_len
        if experiment.policy == "reserve-prompt-max-tokens":
            return max((lengths.prompt_tokens for lengths in work), default=0) + experiment.max_tokens
        longest = max((lengths.prompt_tokens + lengths.output_tokens for lengths in work), default=0)
        return blocks_for(longest, experiment.block_size) * experiment.block_size

    def grow(self, due: list[Due]) -> None:
        """Give each the block that its next token needs, in admission order; whoever is preempted before its turn asks
        for nothing it could use."""
        asking = due  # sorted, so a heap
        while asking:
            admission, sequence = heappop(asking)
            if sequence.status is Status.RUNNING:
                lost = self.take_block(sequence)
            else:
                lost = self.at_the_cost_of_others(partial(self._make_room_for_nothing, sequence))
            for victim in lost:
                turn = (victim.admitted_order, victim)
                if victim.admitted_order > admission and turn not in asking:
                    heappush(asking, turn)

    def _make_room_for_nothing(self, sequence: Sequence) -> None:
        needed = self.kv.blocks_to_hold(sequence, len(sequence.tokens))
        while not self.kv.can_take(needed) and len(self.roster.running) > 1:
            victim = newest(self.roster.running)
            self.scheduler.preempt(victim, "recompute", "newest", sequence.last_event, needed_by=sequence.seq)
