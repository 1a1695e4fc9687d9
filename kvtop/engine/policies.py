"""The rules that can be exchanged: how much memory a sequence takes, and who is thrown out.

An allocation policy says how many blocks a table must hold. ``paged`` grows by a block when the last one is full.
The two reservations take everything at admission as one contiguous region of the same pool, the way engines did
before paging; they exist to be compared with (Kwon et al. 2023, arXiv:2309.06180, section 3).
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Protocol

from kvtop.engine.config import SchedulerConfig
from kvtop.engine.sequences import Sequence
from kvtop.engine.tables import blocks_for


class AllocationPolicy(Protocol):
    contiguous: bool
    """Tables are one region each: nothing can be shared, so neither forks nor the prefix cache save memory."""

    def blocks_to_hold(self, sequence: Sequence, tokens: int) -> int:
        """Blocks the table must have so that ``tokens`` tokens have a slot."""
        ...


class Paged:
    """ceil((tokens + lookahead) / block size)."""

    contiguous = False

    def __init__(self, config: SchedulerConfig) -> None:
        self._block_size = config.block_size
        self._lookahead = config.lookahead_slots

    def blocks_to_hold(self, sequence: Sequence, tokens: int) -> int:
        return -(-(tokens + self._lookahead) // self._block_size)


class ReserveMaxModelLen:
    """Every sequence holds room for the longest one there may be."""

    contiguous = True

    def __init__(self, config: SchedulerConfig) -> None:
        self._blocks = blocks_for(config.max_model_len, config.block_size)

    def blocks_to_hold(self, sequence: Sequence, tokens: int) -> int:
        return self._blocks


class ReservePromptMaxTokens:
    """Every sequence holds room for its prompt and the most it may generate."""

    contiguous = True

    def __init__(self, config: SchedulerConfig) -> None:
        self._block_size = config.block_size
        self._max_model_len = config.max_model_len

    def blocks_to_hold(self, sequence: Sequence, tokens: int) -> int:
        longest = min(sequence.prompt_len + sequence.request.max_tokens, self._max_model_len)
        return blocks_for(max(longest, sequence.prompt_len), self._block_size)


def allocation_policy(config: SchedulerConfig) -> AllocationPolicy:
    classes: dict[str, Callable[[SchedulerConfig], AllocationPolicy]] = {
        "paged": Paged,
        "reserve-max-model-len": ReserveMaxModelLen,
        "reserve-prompt-max-tokens": ReservePromptMaxTokens,
    }
    return classes[config.policy](config)


def newest(running: Seq[Sequence]) -> Sequence:
    """The sequence admitted last: older ones have more to lose and are nearer to their end."""
    return max(running, key=lambda sequence: (sequence.admitted_order, sequence.index))


def lowest_priority(running: Seq[Sequence]) -> Sequence:
    """The largest priority number; among equals the newest."""
    return max(running, key=lambda sequence: (sequence.request.priority, sequence.admitted_order, sequence.index))


def most_blocks(running: Seq[Sequence]) -> Sequence:
    """The longest block table; among equals the newest."""
    return max(running, key=lambda sequence: (len(sequence.table), sequence.admitted_order, sequence.index))


VICTIM_RULE: dict[str, Callable[[Seq[Sequence]], Sequence]] = {
    "newest": newest,
    "lowest-priority": lowest_priority,
    "most-blocks": most_blocks,
}
