"""The start-up report of a command with an engine: how large its pool is and what that is good for, on stderr."""

from __future__ import annotations

import sys

from kvtop.engine.events import EngineInfo
from kvtop.engine.pool_size import PoolSize, no_swap_warning, pool_of


def say_pool(info: EngineInfo) -> None:
    """In blocks, tokens, bytes and longest requests, for its own block size and another beside it."""
    pool = pool_of(info)
    say_size(pool, info.max_model_len)
    for warning in (pool.warning(info.max_model_len), no_swap_warning(info.preempt, info.swap_blocks)):
        if warning:
            print(f"kvtop: warning: {warning}", file=sys.stderr)


def say_size(pool: PoolSize, max_model_len: int) -> None:
    for line in pool.report(max_model_len):
        print(line, file=sys.stderr)
