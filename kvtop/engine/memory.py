"""How large the KV pool may be: from what was asked for, else from what the machine has left.

One idea: everything is counted in blocks of ``block_size`` tokens; bytes a token follow from the model. Nothing is
allocated here. Defaults: on CUDA nine tenths of the memory that is free after the dry run; on a CPU an eighth of the
available memory, at most 512 MiB, so that a laptop stays a laptop (``--kv-memory`` takes more).
"""

from __future__ import annotations

import psutil
import torch

from kvtop.engine.pool_size import PoolSize, format_bytes
from kvtop.failure import Failure
from kvtop.settings import EngineSettings

CUDA_SHARE = 0.9
"""Of the memory free after the dry run; the rest is for fragmentation and kernels' workspaces."""
CPU_SHARE = 1 / 8
CPU_MOST_BYTES = 512 << 20


def free_bytes(device: torch.device) -> int:
    """Memory of ``device`` that is free now."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return psutil.virtual_memory().available


def choose_pool_size(settings: EngineSettings, kv_bytes_per_token: int, free: int, on_cuda: bool) -> PoolSize:
    """The pool for ``settings`` when ``free`` bytes are left on the device.

    Raises:
        Failure: not even one block fits, or more was asked for than there is.
    """
    block_bytes = settings.block_size * kv_bytes_per_token
    if settings.num_blocks is not None:
        num_blocks, asked = settings.num_blocks, f"--num-blocks {settings.num_blocks}"
    elif settings.kv_memory is not None:
        num_blocks, asked = settings.kv_memory // block_bytes, f"--kv-memory {format_bytes(settings.kv_memory)}"
    else:
        share = free * CUDA_SHARE if on_cuda else min(free * CPU_SHARE, CPU_MOST_BYTES)
        num_blocks, asked = int(share) // block_bytes, "the default"
    if num_blocks < 1:
        raise Failure(
            f"no memory for the KV pool: {asked} holds no block of {settings.block_size} tokens, which takes "
            f"{format_bytes(block_bytes)}; {format_bytes(free)} are free; give more --kv-memory or a smaller block size"
        )
    if num_blocks * block_bytes > free:
        raise Failure(
            f"no memory for the KV pool: {asked} takes {format_bytes(num_blocks * block_bytes)}, "
            f"{format_bytes(free)} are free; at most {free // block_bytes:,} blocks fit"
        )
    return PoolSize(num_blocks, settings.block_size, kv_bytes_per_token)


def choose_swap_blocks(settings: EngineSettings, pool: PoolSize, on_cuda: bool) -> int:
    """Blocks of swap space in ``settings.swap_memory``; it lies in CPU memory, beside the pool unless that is on CUDA.

    Raises:
        Failure: there is too little memory.
    """
    swap_blocks = settings.swap_memory // pool.block_bytes
    free = psutil.virtual_memory().available - (0 if on_cuda else pool.pool_bytes)
    if swap_blocks * pool.block_bytes > free:
        raise Failure(
            f"no memory for the swap space: --swap-memory {format_bytes(settings.swap_memory)}, "
            f"{format_bytes(max(free, 0))} are free beside the pool"
        )
    return swap_blocks
