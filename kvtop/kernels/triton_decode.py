"""Attention of one query a sequence over its pages.

One idea: the query heads of one KV head are the rows of one tile, so K and V are read once. A tile takes as many keys
as suits the hardware and finds each key's page on its own; the page numbers of the next tile are loaded one iteration
ahead. A sequence of one split is written directly; of several, each leaves its maximum, its sum and its weighted values
in the workspace, to be joined. It never allocates while it has a workspace and an output.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvtop.kernels.paged import AttentionRule
from kvtop.kernels.triton_splits import SplitWorkspace, join_splits, seqs_padded, shares
from kvtop.kernels.triton_tiles import DOT_DTYPES, add_sink, first_visible, fold_tile, log2_scores
from kvtop.kernels.triton_tuning import FUSED, DecodeTuning, architecture, decode_tuning


@triton.jit(do_not_specialize=["block_tables", "context_lens", "num_seqs", "spare_items", "table_stride"])
def _decode_kernel(
    output,
    partial_values,
    partial_stats,
    query,
    key_pool,
    value_pool,
    block_tables,
    context_lens,
    sinks,
    num_seqs,
    spare_items,
    scale,
    output_seq_stride,
    output_head_stride,
    query_seq_stride,
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
    KEY_DIM_PADDED: tl.constexpr,
    VALUE_DIM_PADDED: tl.constexpr,
    TILE: tl.constexpr,
    SPLIT: tl.constexpr,
    MIN_SPLIT: tl.constexpr,
    DOT_DTYPE: tl.constexpr,
    DOT_PRECISION: tl.constexpr,
):
    kv_head = tl.program_id(0)
    item = tl.program_id(1)
    if SPLIT:
        items, ends = shares(context_lens, num_seqs, spare_items, SEQS_PADDED, MIN_SPLIT, WINDOW, CHUNK)
        seq = tl.sum((ends <= item).to(tl.int32), 0)
        if seq >= num_seqs:
            # A spare item that no sequence needs.
            return
        mine = tl.arange(0, SEQS_PADDED) == seq
        num_splits = tl.sum(tl.where(mine, items, 0), 0)
        split = item - tl.sum(tl.where(mine, ends - items, 0), 0)
        context = tl.load(context_lens + seq)
        begin = first_visible(tl.maximum(context - 1, 0), WINDOW, CHUNK)
        split_keys = tl.cdiv(tl.cdiv(context - begin, num_splits), TILE) * TILE
        begin += split * split_keys
        end = tl.minimum(begin + split_keys, context)
    else:
        seq = item
        num_splits = 1
        context = tl.load(context_lens + seq)
        begin = first_visible(tl.maximum(context - 1, 0), WINDOW, CHUNK)
        end = context

    rows = tl.arange(0, ROWS)
    heads = kv_head * GROUP + rows
    in_group = rows < GROUP
    key_dims = tl.arange(0, KEY_DIM_PADDED)
    value_dims = tl.arange(0, VALUE_DIM_PADDED)
    query_row = query + seq.to(tl.int64) * query_seq_stride + heads[:, None] * query_head_stride + key_dims[None, :]
    queries = tl.load(query_row, mask=in_group[:, None] & (key_dims < KEY_DIM)[None, :], other=0.0).to(DOT_DTYPE)

    table = block_tables + seq.to(tl.int64) * table_stride
    key_head = key_pool + kv_head.to(tl.int64) * key_head_stride + key_dims[None, :]
    value_head = value_pool + kv_head.to(tl.int64) * value_head_stride + value_dims[None, :]
    keys = begin + tl.arange(0, TILE)
    pages = tl.load(table + keys // BLOCK_SIZE, mask=keys < end, other=0)
    accumulated = tl.zeros([ROWS, VALUE_DIM_PADDED], tl.float32)
    highest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    # The loop counts from a constant 0: with an opaque lower bound the compiler loses the pointers' alignment, and with
    # it the asynchronous 16-byte loads.
    for done in range(0, end - begin, TILE):
        keys = begin + done + tl.arange(0, TILE)
        visible = keys < end
        slots = keys % BLOCK_SIZE
        page = pages.to(tl.int64)
        key_rows = key_head + (page * key_block_stride + slots * key_slot_stride)[:, None]
        value_rows = value_head + (page * value_block_stride + slots * value_slot_stride)[:, None]
        key = tl.load(key_rows, mask=visible[:, None] & (key_dims < KEY_DIM)[None, :], other=0.0)
        value = tl.load(value_rows, mask=visible[:, None] & (value_dims < VALUE_DIM)[None, :], other=0.0)
        ahead = keys + TILE
        pages = tl.load(table + ahead // BLOCK_SIZE, mask=ahead < end, other=0)
        products = tl.dot(queries, tl.trans(key.to(DOT_DTYPE)), input_precision=DOT_PRECISION)
        scores = tl.where(visible[None, :], log2_scores(products, scale, SOFTCAP), float("-inf"))
        accumulated, highest, total = fold_tile(
            accumulated, highest, total, scores, value, False, DOT_DTYPE, DOT_PRECISION
        )

    inside = in_group[:, None] & (value_dims < VALUE_DIM)[None, :]
    if num_splits == 1:
        if HAS_SINKS:
            sink = tl.load(sinks + heads, mask=in_group, other=0.0)
            accumulated, highest, total = add_sink(accumulated, highest, total, sink)
        # A padding row has no key: its sum is 0 and its output 0.
        accumulated = accumulated / tl.where(total > 0.0, total, 1.0)[:, None]
        target = output + seq.to(tl.int64) * output_seq_stride + heads[:, None] * output_head_stride
        tl.store(target + value_dims[None, :], accumulated.to(output.dtype.element_ty), mask=inside)
    else:
        partial = item.to(tl.int64) * (tl.num_programs(0) * GROUP) + heads
        tl.store(partial_values + partial[:, None] * VALUE_DIM + value_dims[None, :], accumulated, mask=inside)
        tl.store(partial_stats + 2 * partial, highest, mask=in_group)
        tl.store(partial_stats + 2 * partial + 1, total, mask=in_group)


def decode_attention(
    query: torch.Tensor,
    key_pool: torch.Tensor,
    value_pool: torch.Tensor,
    block_tables: torch.Tensor,
    context_lens: torch.Tensor,
    rule: AttentionRule,
    *,
    out: torch.Tensor | None = None,
    workspace: SplitWorkspace | None = None,
    tuning: DecodeTuning | None = None,
) -> torch.Tensor:
    """Attend from one query a sequence over its pages; returns ``out`` [seqs, query_heads, value_dim].

    ``query`` [seqs, query_heads, key_dim]; pools [num_blocks, block_size, kv_heads, dim]; ``block_tables`` int32
    [seqs, max_blocks]; ``context_lens`` int32 [seqs]: keys in the pool, the query's own included (0: a padding row,
    whose output is 0). Strides are free but for contiguous last dimensions. Without a workspace no sequence is split.

    Raises:
        ValueError: the workspace was allocated for fewer sequences.
    """
    num_seqs, query_heads, key_dim = query.shape
    _, block_size, kv_heads, value_dim = value_pool.shape
    if out is None:
        out = query.new_empty(num_seqs, query_heads, value_dim)
    if num_seqs == 0:
        return out
    if tuning is None:
        tuning = decode_tuning(architecture(query.device), key_pool.dtype, max(key_dim, value_dim))
    group = query_heads // kv_heads
    spare_items = 0 if workspace is None else workspace.spare_items
    values, stats = (out, out) if workspace is None else (workspace.values, workspace.stats)
    if workspace is not None and num_seqs + spare_items > values.shape[0]:
        raise ValueError(f"the workspace is for {values.shape[0] - spare_items} sequences, the batch has {num_seqs}")
    interpreted = query.device.type == "cpu"
    _decode_kernel[(kv_heads, num_seqs + spare_items)](
        out,
        values,
        stats,
        query,
        key_pool,
        value_pool,
        block_tables,
        context_lens,
        rule.sinks,
        num_seqs,
        spare_items,
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
        ROWS=max(16, triton.next_power_of_2(group)),
        KEY_DIM_PADDED=triton.next_power_of_2(key_dim),
        VALUE_DIM_PADDED=triton.next_power_of_2(value_dim),
        TILE=tuning.tile,
        SPLIT=spare_items > 0,
        MIN_SPLIT=tuning.min_split,
        DOT_DTYPE=tl.float32 if interpreted else DOT_DTYPES[key_pool.dtype],
        DOT_PRECISION=tuning.dot_precision,
        num_warps=tuning.num_warps,
        num_stages=tuning.num_stages,
        **FUSED,
    )
    if workspace is not None:
        join_splits(out, workspace, context_lens, rule, tuning.min_split)
    return out
