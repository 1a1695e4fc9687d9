"""From settings to an engine that is ready for its first request: model found, loaded, checked, pool sized.

The one place where scheduler, runner and tokenizer are joined for real use; ``kvtop run`` and the engine process both
come here. torch and transformers are imported when an engine is built, once the model is on this machine.
"""

from __future__ import annotations

from collections.abc import Callable

from kvtop.engine.config import SchedulerConfig
from kvtop.engine.engine import Engine
from kvtop.engine.events import EngineInfo
from kvtop.engine.scheduler import Scheduler
from kvtop.models.progress import Report, no_report
from kvtop.models.resolve import resolve_model
from kvtop.settings import EngineSettings


def build_engine(
    settings: EngineSettings, report: Report = no_report, inspect: Callable[[Scheduler], None] | None = None
) -> Engine:
    """Find (pull, if need be) and load the model, and put an engine on it. ``inspect``: see Engine.

    Raises:
        Failure: it cannot be done; the message says why and what to do.
    """
    folder = resolve_model(settings.model, model_dir=settings.model_dir, source=settings.model_source, report=report)
    from kvtop.engine.loading import load_model  # after the pull: it takes seconds, and switches the hub off

    loaded = load_model(folder, settings, report)
    config = SchedulerConfig(
        num_blocks=loaded.pool.num_blocks,
        block_size=settings.block_size,
        swap_blocks=loaded.swap_blocks,
        max_num_seqs=settings.max_num_seqs,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        max_model_len=loaded.max_model_len,
        policy=settings.policy,
        preempt=settings.preempt,
        victim=settings.victim,
        watermark=settings.watermark,
        prefix_cache=settings.prefix_cache,
    )
    info = EngineInfo(
        model=loaded.name,
        device=loaded.device,
        dtype=loaded.dtype,
        kernel=loaded.kernel,
        block_size=config.block_size,
        num_blocks=config.num_blocks,
        swap_blocks=config.swap_blocks,
        kv_bytes_per_token=loaded.pool.kv_bytes_per_token,
        max_model_len=config.max_model_len,
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        policy=config.policy,
        preempt=config.preempt,
        victim=config.victim,
        watermark=config.watermark,
        prefix_cache=config.prefix_cache,
        chat_template=loaded.codec.has_chat_template,
    )
    return Engine(info, config, loaded.runner, loaded.codec, loaded.eos_token_ids, loaded.vocab_size, inspect)
