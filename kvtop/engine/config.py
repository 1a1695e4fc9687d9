"""The limits and rules a scheduler works under. Those marked so can change while it runs; each change is an event."""

from __future__ import annotations

from dataclasses import dataclass

from kvtop.engine.events import PreemptMode

POLICIES = ("paged", "reserve-prompt-max-tokens", "reserve-max-model-len")
VICTIM_RULES = ("newest", "lowest-priority", "most-blocks")
PREEMPT_MODES: tuple[PreemptMode, ...] = ("recompute", "swap")
MAX_BLOCKS = 1 << 24
"""A pool is kept block by block; more of them would fill the memory of most machines with nothing but bookkeeping."""


@dataclass(slots=True, kw_only=True)
class SchedulerConfig:
    """Blocks are counted in ``block_size`` tokens; the pool has ``num_blocks`` usable ones.

    Raises:
        ValueError: a value is outside its range; the message names it.
    """

    num_blocks: int
    block_size: int = 16
    swap_blocks: int = 0
    max_num_seqs: int = 64
    """May change while running."""
    max_num_batched_tokens: int = 2048
    """May change while running."""
    max_model_len: int = 2048
    policy: str = "paged"
    preempt: PreemptMode = "recompute"
    """May change while running."""
    victim: str = "newest"
    """May change while running."""
    watermark: float = 0.0
    """Share of the pool that an admission must leave free or evictable. May change while running."""
    prefix_cache: bool = True
    lookahead_slots: int = 0
    max_preemptions: int = 20
    """A sequence preempted this often runs to its end: it is no victim any more, and at most one such runs."""

    def __post_init__(self) -> None:
        size = self.block_size
        if not (1 <= size <= 256 and size & (size - 1) == 0):
            raise ValueError(f"block size is {size}, expected a power of two from 1 to 256")
        for name in ("num_blocks", "max_num_seqs", "max_num_batched_tokens", "max_model_len", "max_preemptions"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1")
        for name in ("num_blocks", "swap_blocks"):
            if getattr(self, name) > MAX_BLOCKS:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at most {MAX_BLOCKS:,}")
        for name in ("swap_blocks", "lookahead_slots"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}, expected 0 or more")
        if not 0 <= self.watermark < 1:
            raise ValueError(f"watermark is {self.watermark}, expected a share from 0 to below 1")
        for name, allowed in (("policy", POLICIES), ("victim", VICTIM_RULES), ("preempt", PREEMPT_MODES)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} is {getattr(self, name)!r}, expected one of {', '.join(allowed)}")
