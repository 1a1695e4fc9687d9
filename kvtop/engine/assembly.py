"""From settings to an engine that is ready for its first request: model found, loaded, checked, pool sized.

The one place where scheduler, runner and tokenizer are joined for real use; ``kvtop run`` and the engine process both
come here. torch and transformers are imported when an engine is built, once the model is on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from kvtop.engine.config import SchedulerConfig
from kvtop.engine.engine import Engine
from kvtop.engine.engine_info import engine_info
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
    _bound_spinning()
    _bound_kernel_caches()
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
    info = engine_info(
        config,
        model=loaded.name,
        device=loaded.device,
        dtype=loaded.dtype,
        kernel=loaded.kernel,
        kv_bytes_per_token=loaded.pool.kv_bytes_per_token,
        chat_template=loaded.codec.has_chat_template,
    )
    return Engine(info, config, loaded.runner, loaded.codec, loaded.eos_token_ids, loaded.vocab_size, inspect)


def _bound_spinning() -> None:
    """Let torch's threads spin only briefly while they wait for one another. OpenMP reads this when torch is imported;
    a setting of the user's own counts before it."""
    # By default libgomp, which comes with torch, spins 300,000 turns, and so keeps a core from the very thread it waits
    # for as soon as something else is busy too. Measured: SmolLM2 in bf16, two threads on two cores of an EPYC, torch
    # 2.13; ms a decode step of 16, means over a run, two runs each:
    #                              300,000 turns   3,000        1,000        300        none (passive)
    #   alone                         41 |  43     49 |  49     46 |  46     53 | 52     56 |  60
    #   beside one busy core       2,780          111 | 113     77 |  80     64 | 65     62 |  60
    #   beside two                               140 | 132    100 | 121    120 | 70     94 |  98
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def _bound_kernel_caches() -> None:
    """Let oneDNN, and torch around it, keep few of the kernels that are made for every number of tokens a step has.
    Both read this when torch is imported; a setting of the user's own counts before it."""
    # Kept by default: 1,024 of each kind. SmolLM2's linear layers take 2.3 MB a number of tokens, so an engine under
    # ragged traffic grew by 400 MB in 130 requests and went on to gigabytes. Made anew they cost 4 ms.
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(name, "64")
