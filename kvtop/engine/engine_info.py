"""What an engine says of itself: the scheduler's limits and rules beside what only its maker knows."""

from __future__ import annotations

from kvtop.engine.config import SchedulerConfig
from kvtop.engine.events import EngineInfo


def engine_info(
    config: SchedulerConfig,
    *,
    model: str,
    device: str,
    dtype: str,
    kernel: str,
    kv_bytes_per_token: int,
    simulated: bool = False,
    chat_template: bool = False,
) -> EngineInfo:
    """The info of an engine that starts under ``config``."""
    return EngineInfo(
        model=model,
        device=device,
        dtype=dtype,
        kernel=kernel,
        kv_bytes_per_token=kv_bytes_per_token,
        simulated=simulated,
        chat_template=chat_template,
        block_size=config.block_size,
        num_blocks=config.num_blocks,
        swap_blocks=config.swap_blocks,
        max_model_len=config.max_model_len,
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        policy=config.policy,
        preempt=config.preempt,
        victim=config.victim,
        watermark=config.watermark,
        prefix_cache=config.prefix_cache,
    )
