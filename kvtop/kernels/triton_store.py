"""Write the step's new keys and values into their slots.

One idea: a program a token, all KV heads at once; the slot (block x block_size + offset) says where. K and V have
strides of their own. It never reads the pools.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvtop.kernels.triton_tuning import FUSED


@triton.jit
def _store_kernel(
    key,
    value,
    key_pool,
    value_pool,
    slot_mapping,
    key_token_stride,
    key_head_stride,
    value_token_stride,
    value_head_stride,
    key_block_stride,
    key_slot_stride,
    key_pool_head_stride,
    value_block_stride,
    value_slot_stride,
    value_pool_head_stride,
    BLOCK_SIZE: tl.constexpr,
    KV_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    HEADS_PADDED: tl.constexpr,
    KEY_DIM_PADDED: tl.constexpr,
    VALUE_DIM_PADDED: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping + token)
    if slot < 0:
        return
    block = (slot // BLOCK_SIZE).to(tl.int64)
    offset = slot % BLOCK_SIZE
    heads = tl.arange(0, HEADS_PADDED)[:, None].to(tl.int64)
    dims = tl.arange(0, KEY_DIM_PADDED)[None, :]
    inside = (heads < KV_HEADS) & (dims < KEY_DIM)
    row = tl.load(key + token * key_token_stride + heads * key_head_stride + dims, mask=inside)
    target = key_pool + block * key_block_stride + offset * key_slot_stride
    tl.store(target + heads * key_pool_head_stride + dims, row, mask=inside)
    dims = tl.arange(0, VALUE_DIM_PADDED)[None, :]
    inside = (heads < KV_HEADS) & (dims < VALUE_DIM)
    row = tl.load(value + token * value_token_stride + heads * value_head_stride + dims, mask=inside)
    target = value_pool + block * value_block_stride + offset * value_slot_stride
    tl.store(target + heads * value_pool_head_stride + dims, row, mask=inside)


def store_kv(
    key: torch.Tensor,
    value: torch.Tensor,
    key_pool: torch.Tensor,
    value_pool: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    """Write ``key`` [tokens, kv_heads, key_dim] and ``value`` [tokens, kv_heads, value_dim] into the pools.

    The pools are [num_blocks, block_size, kv_heads, dim]; ``slot_mapping`` is int64 [tokens], a negative slot is
    skipped. The last dimension of all four must be contiguous; all other strides are free.
    """
    tokens, kv_heads, key_dim = key.shape
    if tokens == 0:
        return
    value_dim = value.shape[2]
    _store_kernel[(tokens,)](
        key,
        value,
        key_pool,
        value_pool,
        slot_mapping,
        key.stride(0),
        key.stride(1),
        value.stride(0),
        value.stride(1),
        key_pool.stride(0),
        key_pool.stride(1),
        key_pool.stride(2),
        value_pool.stride(0),
        value_pool.stride(1),
        value_pool.stride(2),
        BLOCK_SIZE=key_pool.shape[1],
        KV_HEADS=kv_heads,
        KEY_DIM=key_dim,
        VALUE_DIM=value_dim,
        HEADS_PADDED=triton.next_power_of_2(kv_heads),
        KEY_DIM_PADDED=triton.next_power_of_2(key_dim),
        VALUE_DIM_PADDED=triton.next_power_of_2(value_dim),
        num_warps=4,
        **FUSED,
    )
