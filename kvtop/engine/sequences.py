"""A sequence: one line of tokens in the making, and the block table that says where its KV lies.

A request becomes one sequence, or several (parallel samples, beams). The scheduler moves a sequence between
waiting, running, swapped and finished; only the scheduler and the table's owner, the block pool, change it.
KV of the token at position p exists once p < ``computed``. A freshly sampled token has none until the next step.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from kvtop.engine.events import FinishReason, PreemptMode, Waits
from kvtop.engine.prefix import PrefixKey
from kvtop.engine.requests import Request
from kvtop.engine.tables import BlockTable


class Status(enum.Enum):
    WAITING = "waiting"
    RUNNING = "running"
    SWAPPED = "swapped"
    FINISHED = "finished"


@dataclass(slots=True, eq=False)
class Sequence:
    """``tokens`` is the prompt followed by what was generated; it only ever grows."""

    seq: int
    request: Request
    index: int
    """Which of the request's samples or beams this is, from 0."""
    tokens: list[int]
    prompt_len: int
    table: BlockTable
    swap_table: BlockTable
    status: Status = Status.WAITING
    computed: int = 0
    """Positions 0..computed-1 have KV in the table's blocks."""
    high_water: int = 0
    """The largest ``computed`` that was ever lost to a preemption: computing below it again is recompute."""
    cached_tokens: int = 0
    """Prompt tokens taken from the prefix cache at the first admission."""
    preemptions: int = 0
    recomputed_tokens: int = 0
    swapped_blocks: int = 0
    """Blocks copied to the swap space for it so far."""
    swapped_tokens: int = 0
    """Tokens whose KV lies in the swap space; 0 unless it is swapped out."""
    preempt_mode: PreemptMode | None = None
    """How it was last preempted, until it runs again."""
    admitted_order: int = 0
    """Rises with every admission over the whole engine; 0 while it never ran."""
    queued_step: int = 0
    """The step at which it last joined a queue."""
    queued_event: int = 0
    last_event: int = 0
    """The latest event about it: the default cause of the next one."""
    wait: Waits | None = None
    """Why it could not be admitted when it was last the head of the queue."""
    prefix_keys: list[PrefixKey] = field(default_factory=list)
    """Keys of its full blocks, as far as they were worked out."""
    indexed_blocks: int = 0
    """Blocks of the table that were offered to the prefix index."""
    offers_blocks: bool = True
    """False from a clearing of the prefix cache until it gives up its table: its blocks are not indexed any more."""
    cumulative_logprob: float = 0.0
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None

    @property
    def generated(self) -> int:
        return len(self.tokens) - self.prompt_len

    @property
    def to_compute(self) -> int:
        """Tokens that need KV before the next one can be sampled: 1 in decode, more in prefill."""
        return len(self.tokens) - self.computed


def common_prefix_len(one: Sequence, other: Sequence) -> int:
    """How many tokens two sequences of one request have in common from the start; at least the prompt."""
    length = one.prompt_len
    for a, b in zip(one.tokens[length:], other.tokens[length:], strict=False):
        if a != b:
            break
        length += 1
    return length
