"""Copy whole blocks: within a pool (copy-on-write), to the swap space, back from it.

One idea: a pool may be strided, so a block is copied slot by slot of each head, never as one run of bytes. The pairs
of one call are independent: no target is another pair's source or target, because programs run in any order. Source
and target may be different pools; one of them may lie in pinned CPU memory, which the GPU reads over the bus.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvtop.kernels.triton_tuning import FUSED

_SLOTS_A_PROGRAM = 16


@triton.jit
def _copy_kernel(
    source_pool,
    target_pool,
    pairs,
    source_block_stride,
    source_slot_stride,
    source_head_stride,
    target_block_stride,
    target_slot_stride,
    target_head_stride,
    BLOCK_SIZE: tl.constexpr,
    DIM: tl.constexpr,
    SLOTS: tl.constexpr,
    DIM_PADDED: tl.constexpr,
):
    pair = pairs + 2 * tl.program_id(0)
    head = tl.program_id(1).to(tl.int64)
    first_slot = tl.program_id(2) * SLOTS
    source = tl.load(pair).to(tl.int64)
    target = tl.load(pair + 1).to(tl.int64)
    slots = first_slot + tl.arange(0, SLOTS)[:, None]
    dims = tl.arange(0, DIM_PADDED)[None, :]
    inside = (slots < BLOCK_SIZE) & (dims < DIM)
    source_head = source_pool + source * source_block_stride + head * source_head_stride
    target_head = target_pool + target * target_block_stride + head * target_head_stride
    content = tl.load(source_head + slots * source_slot_stride + dims, mask=inside)
    tl.store(target_head + slots * target_slot_stride + dims, content, mask=inside)


def copy_blocks(source_pool: torch.Tensor, target_pool: torch.Tensor, pairs: torch.Tensor) -> None:
    """Copy block ``pairs[i, 0]`` of ``source_pool`` onto block ``pairs[i, 1]`` of ``target_pool``.

    The pools are [num_blocks, block_size, kv_heads, dim] of equal dtype and equal last three sizes; strides are free
    but for a contiguous last dimension. ``pairs`` is int32 or int64 [n, 2], contiguous, on the GPU; independent pairs.
    """
    count = pairs.shape[0]
    if count == 0:
        return
    _, block_size, kv_heads, dim = source_pool.shape
    slots = min(_SLOTS_A_PROGRAM, triton.next_power_of_2(block_size))
    _copy_kernel[(count, kv_heads, triton.cdiv(block_size, slots))](
        source_pool,
        target_pool,
        pairs,
        source_pool.stride(0),
        source_pool.stride(1),
        source_pool.stride(2),
        target_pool.stride(0),
        target_pool.stride(1),
        target_pool.stride(2),
        BLOCK_SIZE=block_size,
        DIM=dim,
        SLOTS=slots,
        DIM_PADDED=triton.next_power_of_2(dim),
        num_warps=4,
        **FUSED,
    )
