"""One experiment: a policy, a pool, a workload, everything that decides a row of the lab's table.

The defaults are the published experiment: Llama-3-8B's KV (131,072 bytes a token) in 52 * 10**9 bytes, 4,000 requests
that all wait at the start. ``scheduler_config`` puts an experiment into the engine's words; what it leaves out there
(token budget, preemption bound) is out of play in the lab.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kvtop.engine.config import SchedulerConfig
from kvtop.engine.cost import LLAMA_3_8B_KV_BYTES_PER_TOKEN

Placement = Literal["counted", "first-fit"]
Preempted = Literal["restart", "resume"]

POOL_BYTES = 52 * 10**9
POOL_TOKENS = POOL_BYTES // LLAMA_3_8B_KV_BYTES_PER_TOKEN
REGION_BLOCK_SIZE = 16
"""The live engine's default."""
NO_LIMIT = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Tokens are counted in slots of the pool, one a token."""

    policy: str = "paged"
    block_size: int = 16
    """Of the paged policy; a reservation has none."""
    placement: Placement = "counted"
    """Of a reservation: any free slots, one by one, or one region that must lie in one piece."""
    watermark: float = 0.0
    victim: str = "newest"
    preempted: Preempted = "restart"
    """What a preempted request keeps: nothing, or the tokens it generated (their KV is computed again either way)."""
    output_median: float | None = None
    """Tokens of the median answer; None: exp(4.8), about 122."""
    seed: int = 3
    requests: int = 4_000
    pool_tokens: int = POOL_TOKENS
    max_num_seqs: int = 1_024
    max_model_len: int = 8_192
    max_tokens: int = 2_048
    lookahead_slots: int = 1
    region_block_size: int = REGION_BLOCK_SIZE
    """Tokens a block of a first-fit reservation's region: what its size is rounded up to."""

    @property
    def reserves(self) -> bool:
        return self.policy != "paged"

    @property
    def counted(self) -> bool:
        """Whether memory is a number, without places."""
        return self.reserves and self.placement == "counted"

    @property
    def pool_block_size(self) -> int:
        """Tokens a block of the pool as the scheduler sees it."""
        if not self.reserves:
            return self.block_size
        return 1 if self.counted else self.region_block_size

    def scheduler_config(self) -> SchedulerConfig:
        """The experiment as the engine's scheduler takes it.

        Raises:
            ValueError: a value is outside its range; the message names it.
        """
        return SchedulerConfig(
            num_blocks=self.pool_tokens // self.pool_block_size,
            block_size=self.pool_block_size,
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=NO_LIMIT,
            max_model_len=self.max_model_len,
            policy=self.policy,
            victim=self.victim,
            watermark=self.watermark,
            prefix_cache=False,
            lookahead_slots=self.lookahead_slots,
            max_preemptions=NO_LIMIT,
        )


PUBLISHED_ROWS = (
    Experiment(policy="reserve-max-model-len"),
    Experiment(policy="reserve-prompt-max-tokens"),
    Experiment(policy="paged", block_size=256),
    Experiment(policy="paged", block_size=16),
)
"""The rows of the published table, in its order."""
