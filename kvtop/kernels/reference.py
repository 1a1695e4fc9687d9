"""Paged attention in plain torch: the definition that every other kernel is checked against.

One idea: a sequence's context is gathered slot by slot, exactly its tokens and nothing beyond, and attended to in
float32 (float64 for float64 pools). It is slow and reads like the formula; it runs on any device torch knows.
"""

from __future__ import annotations

import torch

from kvtop.kernels.paged import AttentionRule, PagedBatch


def store_kv(
    key: torch.Tensor, value: torch.Tensor, key_pool: torch.Tensor, value_pool: torch.Tensor, slots: torch.Tensor
) -> None:
    """Write ``key`` [tokens, kv_heads, key_dim] and ``value`` [tokens, kv_heads, value_dim] into ``slots`` (int64
    [tokens]) of the pools [num_blocks, block_size, kv_heads, dim], each a view whose blocks follow one another."""
    by_slot(key_pool).index_copy_(0, slots, key)
    by_slot(value_pool).index_copy_(0, slots, value)


def copy_blocks(source_pool: torch.Tensor, target_pool: torch.Tensor, pairs: torch.Tensor) -> None:
    """Copy block ``pairs[i, 0]`` of ``source_pool`` onto block ``pairs[i, 1]`` of ``target_pool`` (int64 [n, 2]
    on any device). All sources are read before the first target is written; no target may occur twice."""
    sources = source_pool[pairs[:, 0].to(source_pool.device)]
    target_pool[pairs[:, 1].to(target_pool.device)] = sources.to(target_pool.device)


def by_slot(pool: torch.Tensor) -> torch.Tensor:
    """The same memory as [slots, kv_heads, dim]."""
    return pool.view(-1, *pool.shape[2:])


def visible(queries: torch.Tensor, keys: torch.Tensor, rule: AttentionRule) -> torch.Tensor:
    """bool [len(queries), len(keys)]: may the query at position queries[i] see the key at position keys[j]?"""
    query, key = queries[:, None], keys[None, :]
    seen = key <= query
    if rule.window:
        seen &= key > query - rule.window
    if rule.chunk:
        seen &= key // rule.chunk == query // rule.chunk
    return seen


def attend(
    query: torch.Tensor, key_pool: torch.Tensor, value_pool: torch.Tensor, batch: PagedBatch, rule: AttentionRule
) -> torch.Tensor:
    """Attention of the step's tokens over their contexts, whose K and V (the step's own too) are in the pools.

    ``query`` is [tokens, query_heads, key_dim]; query head h reads KV head h // (query_heads // kv_heads). Returns
    [tokens, query_heads, value_dim] in the query's dtype.
    """
    tokens, query_heads, _ = query.shape
    keys, values = by_slot(key_pool), by_slot(value_pool)
    out = query.new_empty(tokens, query_heads, values.shape[-1])
    for index, context_len in enumerate(batch.host_context_lens):
        start, stop = batch.host_query_starts[index], batch.host_query_starts[index + 1]
        positions = torch.arange(context_len, device=query.device)
        blocks = batch.block_tables[index].to(torch.int64)[positions // batch.block_size]
        slots = blocks * batch.block_size + positions % batch.block_size
        seen = visible(positions[context_len - (stop - start) :], positions, rule)
        out[start:stop] = attend_dense(query[start:stop], keys[slots], values[slots], seen, rule).to(out.dtype)
    return out


def attend_dense(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, seen: torch.Tensor, rule: AttentionRule
) -> torch.Tensor:
    """``query`` [queries, query_heads, key_dim] over ``key``, ``value`` [keys, kv_heads, dim], where ``seen``
    [queries, keys] allows it. Returns [queries, query_heads, value_dim] in float32, or float64 for float64 input."""
    exact = torch.float64 if key.dtype == torch.float64 else torch.float32
    group = query.shape[1] // key.shape[1]
    key = key.to(exact).repeat_interleave(group, dim=1)
    value = value.to(exact).repeat_interleave(group, dim=1)
    scores = torch.einsum("qhd,khd->hqk", query.to(exact), key) * rule.scaling
    if rule.softcap:
        scores = rule.softcap * torch.tanh(scores / rule.softcap)
    scores = scores.masked_fill(~seen, float("-inf"))
    if rule.sinks is not None:
        sinks = rule.sinks.to(exact)[:, None, None].expand(-1, scores.shape[1], 1)
        weights = torch.cat([scores, sinks], dim=-1).softmax(dim=-1)[..., :-1]
    else:
        weights = scores.softmax(dim=-1)
    return torch.einsum("hqk,khd->qhd", weights, value)
