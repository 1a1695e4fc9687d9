"""Causal attention of many queries a sequence over its pages: prefill, and prefill in chunks behind a context.

One idea: sequences of any length lie end to end in one batch; every program works out from ``query_starts`` alone which
tile of which sequence is its own, so that the grid depends on nothing but two sizes. The rows of a tile are tokens x
query heads of one KV head, so K and V are read once for the group. Keys that all rows of a tile see are taken without
a mask; only the diagonal and the edge of a window or chunk pay for one. A sequence's last tiles, the longest, go first.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvtop.kernels.paged import AttentionRule
from kvtop.kernels.triton_splits import seqs_padded
from kvtop.kernels.triton_tiles import DOT_DTYPES, add_sink, first_visible, fold_tile, log2_scores
from kvtop.kernels.triton_tuning import FUSED, PrefillTuning, architecture, prefill_tuning


@triton.jit
def _take_keys(
    accumulated,
    highest,
    total,
    queries,
    positions,
    begin,
    end,
    key_head,
    value_head,
    table,
    scale,
    key_block_stride,
    key_slot_stride,
    value_block_stride,
    value_slot_stride,
    BLOCK_SIZE: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    KEY_DIM_PADDED: tl.constexpr,
    VALUE_DIM_PADDED: tl.constexpr,
    WINDOW: tl.constexpr,
    CHUNK: tl.constexpr,
    SOFTCAP: tl.constexpr,
    TILE: tl.constexpr,
    MASKED: tl.constexpr,
    DOT_DTYPE: tl.constexpr,
    DOT_PRECISION: tl.constexpr,
):
    """Fold keys ``begin`` to ``end - 1`` in. Without MASKED, their count is whole tiles and every row sees them all."""
    key_dims = tl.arange(0, KEY_DIM_PADDED)[None, :] < KEY_DIM
    value_dims = tl.arange(0, VALUE_DIM_PADDED)[None, :] < VALUE_DIM
    keys = begin + tl.arange(0, TILE)
    pages = tl.load(table + keys // BLOCK_SIZE, mask=keys < end, other=0)
    # Counted from a constant 0, as in the decode kernel.
    for done in range(0, end - begin, TILE):
        keys = begin + done + tl.arange(0, TILE)
        slots = keys % BLOCK_SIZE
        page = pages.to(tl.int64)
        key_rows = key_head + (page * key_block_stride + slots * key_slot_stride)[:, None]
        value_rows = value_head + (page * value_block_stride + slots * value_slot_stride)[:, None]
        if MASKED:
            used = (keys < end)[:, None]
            key = tl.load(key_rows, mask=used & key_dims, other=0.0)
            value = tl.load(value_rows, mask=used & value_dims, other=0.0)
        else:
            key = tl.load(key_rows, mask=key_dims, other=0.0)
            value = tl.load(value_rows, mask=value_dims, other=0.0)
        ahead = keys + TILE
        pages = tl.load(table + ahead // BLOCK_SIZE, mask=ahead < end, other=0)
        products = tl.dot(queries, tl.trans(key.to(DOT_DTYPE)), input_precision=DOT_PRECISION)
        scores = log2_scores(products, scale, SOFTCAP)
        if MASKED:
            seen = (keys[None, :] <= positions[:, None]) & (keys < end)[None, :]
            seen = seen & (keys[None, :] >= first_visible(positions, WINDOW, CHUNK)[:, None])
            scores = tl.where(seen, scores, float("-inf"))
        accumulated, highest, total = fold_tile(
            accumulated, highest, total, scores, value, MASKED, DOT_DTYPE, DOT_PRECISION
        )
    return accumulated, highest, total


@triton.jit(do_not_specialize=["block_tables", "query_starts", "context_lens", "num_seqs", "table_stride"])
def _prefill_kernel(
    output,
    query,
    key_pool,
    value_pool,
    block_tables,
    query_starts,
    context_lens,
    sinks,
    num_seqs,
    scale,
    output_token_stride,
    output_head_stride,
    query_token_stride,
    query_head_stride,
    key_block_stride,
    key_slot_stride,
    key_head_stride,
    value_block_stride,
    value_slot_stride,
    value_head_stride,
    table_stride,
    BLOCK_SIZE: tl.constexpr,
    GROUP: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    WINDOW: tl.constexpr,
    CHUNK: tl.constexpr,
    SOFTCAP: tl.constexpr,
    HAS_SINKS: tl.constexpr,
    SEQS_PADDED: tl.constexpr,
    ROWS: tl.constexpr,
    TOKENS: tl.constexpr,
    KEY_DIM_PADDED: tl.constexpr,
    VALUE_DIM_PADDED: tl.constexpr,
    TILE: tl.constexpr,
    DOT_DTYPE: tl.constexpr,
    DOT_PRECISION: tl.constexpr,
):
    kv_head = tl.program_id(0)
    tile = tl.program_id(1)
    seqs = tl.arange(0, SEQS_PADDED)
    starts = tl.load(query_starts + seqs, mask=seqs < num_seqs, other=0)
    stops = tl.load(query_starts + seqs + 1, mask=seqs < num_seqs, other=0)
    tiles = tl.cdiv(stops - starts, TOKENS)
    ends = tl.cumsum(tiles, 0)
    seq = tl.sum((ends <= tile).to(tl.int32), 0)
    if seq >= num_seqs:
        # The grid is an upper bound: sequences that end within a tile leave programs over.
        return
    tile_in_seq = tl.sum(tl.where(seqs == seq, ends, 0), 0) - 1 - tile
    query_start = tl.load(query_starts + seq)
    query_len = tl.load(query_starts + seq + 1) - query_start
    context = tl.load(context_lens + seq)
    first_token = tile_in_seq * TOKENS
    last_token = tl.minimum(first_token + TOKENS, query_len) - 1
    first_position = context - query_len + first_token
    last_position = context - query_len + last_token

    rows = tl.arange(0, ROWS)
    tokens = first_token + rows // GROUP
    heads = kv_head * GROUP + rows % GROUP
    used = (rows < TOKENS * GROUP) & (tokens <= last_token)
    # Unused rows repeat the tile's last position, so that they never see nothing.
    positions = tl.where(used, first_position + rows // GROUP, last_position)
    key_dims = tl.arange(0, KEY_DIM_PADDED)
    value_dims = tl.arange(0, VALUE_DIM_PADDED)
    query_tokens = (query_start + tokens).to(tl.int64)
    query_rows = query + (query_tokens * query_token_stride + heads * query_head_stride)[:, None] + key_dims[None, :]
    queries = tl.load(query_rows, mask=used[:, None] & (key_dims < KEY_DIM)[None, :], other=0.0).to(DOT_DTYPE)

    table = block_tables + seq.to(tl.int64) * table_stride
    key_head = key_pool + kv_head.to(tl.int64) * key_head_stride + key_dims[None, :]
    value_head = value_pool + kv_head.to(tl.int64) * value_head_stride + value_dims[None, :]
    accumulated = tl.zeros([ROWS, VALUE_DIM_PADDED], tl.float32)
    highest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    begin = first_visible(first_position, WINDOW, CHUNK) // TILE * TILE
    end = last_position + 1
    # [begin, whole_begin) crosses a window's edge, [whole_begin, whole_end) is seen by all rows, the rest is diagonal.
    whole_begin = begin
    if WINDOW > 0 or CHUNK > 0:
        whole_begin = tl.minimum(tl.cdiv(first_visible(last_position, WINDOW, CHUNK), TILE) * TILE, end)
        accumulated, highest, total = _take_keys(
            accumulated, highest, total, queries, positions, begin, whole_begin, key_head, value_head, table, scale,
            key_block_stride, key_slot_stride, value_block_stride, value_slot_stride, BLOCK_SIZE, KEY_DIM, VALUE_DIM,
            KEY_DIM_PADDED, VALUE_DIM_PADDED, WINDOW, CHUNK, SOFTCAP, TILE, True, DOT_DTYPE, DOT_PRECISION,
        )  # fmt: skip
    whole_end = tl.maximum((first_position + 1) // TILE * TILE, whole_begin)
    accumulated, highest, total = _take_keys(
        accumulated, highest, total, queries, positions, whole_begin, whole_end, key_head, value_head, table, scale,
        key_block_stride, key_slot_stride, value_block_stride, value_slot_stride, BLOCK_SIZE, KEY_DIM, VALUE_DIM,
        KEY_DIM_PADDED, VALUE_DIM_PADDED, WINDOW, CHUNK, SOFTCAP, TILE, False, DOT_DTYPE, DOT_PRECISION,
    )  # fmt: skip
    accumulated, highest, total = _take_keys(
        accumulated, highest, total, queries, positions, whole_end, end, key_head, value_head, table, scale,
        key_block_stride, key_slot_stride, value_block_stride, value_slot_stride, BLOCK_SIZE, KEY_DIM, VALUE_DIM,
        KEY_DIM_PADDED, VALUE_DIM_PADDED, WINDOW, CHUNK, SOFTCAP, TILE, True, DOT_DTYPE, DOT_PRECISION,
    )  # fmt: skip

    if HAS_SINKS:
        accumulated, highest, total = add_sink(accumulated, highest, total, tl.load(sinks + heads))
    accumulated = accumulated / total[:, None]
    target = output + (query_tokens * output_token_stride + heads * output_head_stride)[:, None] + value_dims[None, :]
    inside = used[:, None] & (value_dims < VALUE_DIM)[None, :]
    tl.store(target, accumulated.to(output.dtype.element_ty), mask=inside)


def prefill_attention(
    query: torch.Tensor,
    key_pool: torch.Tensor,
    value_pool: torch.Tensor,
    block_tables: torch.Tensor,
    query_starts: torch.Tensor,
    context_lens: torch.Tensor,
    rule: AttentionRule,
    *,
    out: torch.Tensor | None = None,
    tuning: PrefillTuning | None = None,
) -> torch.Tensor:
    """Attend from every query over its sequence's pages up to itself; returns ``out`` [tokens, query_heads, value_dim].

    ``query`` [tokens, query_heads, key_dim], the sequences end to end: sequence s has rows ``query_starts[s]`` to
    ``query_starts[s + 1] - 1`` (int32 [seqs + 1]), and its query i stands at position ``context_lens[s]`` - its number
    of queries + i. Every position up to that must be in the pool. Pools [num_blocks, block_size, kv_heads, dim];
    ``block_tables`` int32 [seqs, max_blocks]; ``context_lens`` int32 [seqs]. Strides are free but for contiguous last
    dimensions. Rows of ``query`` outside ``query_starts`` are left alone.
    """
    tokens, query_heads, key_dim = query.shape
    _, block_size, kv_heads, value_dim = value_pool.shape
    num_seqs = context_lens.shape[0]
    if out is None:
        out = query.new_empty(tokens, query_heads, value_dim)
    if tokens == 0:
        return out
    if tuning is None:
        tuning = prefill_tuning(architecture(query.device), key_pool.dtype, max(key_dim, value_dim))
    group = query_heads // kv_heads
    rows = max(tuning.rows, triton.next_power_of_2(group))
    tokens_a_tile = rows // group
    interpreted = query.device.type == "cpu"
    _prefill_kernel[(kv_heads, triton.cdiv(tokens, tokens_a_tile) + num_seqs)](
        out,
        query,
        key_pool,
        value_pool,
        block_tables,
        query_starts,
        context_lens,
        rule.sinks,
        num_seqs,
        rule.scaling,
        out.stride(0),
        out.stride(1),
        query.stride(0),
        query.stride(1),
        key_pool.stride(0),
        key_pool.stride(1),
        key_pool.stride(2),
        value_pool.stride(0),
        value_pool.stride(1),
        value_pool.stride(2),
        block_tables.stride(0),
        BLOCK_SIZE=block_size,
        GROUP=group,
        KEY_DIM=key_dim,
        VALUE_DIM=value_dim,
        WINDOW=rule.window,
        CHUNK=rule.chunk,
        SOFTCAP=rule.softcap,
        HAS_SINKS=rule.sinks is not None,
        SEQS_PADDED=seqs_padded(num_seqs),
        ROWS=rows,
        TOKENS=tokens_a_tile,
        KEY_DIM_PADDED=triton.next_power_of_2(key_dim),
        VALUE_DIM_PADDED=triton.next_power_of_2(value_dim),
        TILE=tuning.tile,
        DOT_DTYPE=tl.float32 if interpreted else DOT_DTYPES[key_pool.dtype],
        DOT_PRECISION=tuning.dot_precision,
        num_warps=tuning.num_warps,
        num_stages=tuning.num_stages,
        **FUSED,
    )
    return out
