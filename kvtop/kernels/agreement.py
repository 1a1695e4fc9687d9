"""Small problems of paged attention with known answers: do a device's kernels agree with the formula?

One idea: a problem is made from its sequences' keys and values in logical order, and its answer computed from those in
float64, without blocks, tables or slots; so a kernel that follows a table wrongly cannot agree by accident. Slots that
no token owns hold NaN. ``kvtop doctor``, the GPU check and the tests ask the same questions.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch

from kvtop.kernels.dispatch import Kernels
from kvtop.kernels.paged import AttentionRule, LayerPool, PagedBatch

TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""The largest absolute difference from float64 that rounding explains, for queries, keys and values of order 1."""


@dataclass(frozen=True, slots=True)
class Case:
    """One batch. ``lens`` holds (new tokens, context with them) a sequence; those of one new token come first."""

    name: str
    lens: tuple[tuple[int, int], ...]
    kv_heads: int = 2
    group: int = 4
    """Query heads a KV head."""
    key_dim: int = 64
    value_dim: int = 64
    block_size: int = 16
    window: int = 0
    chunk: int = 0
    softcap: float = 0.0
    sinks: bool = False
    dtype: torch.dtype = torch.float32


@dataclass(frozen=True, slots=True)
class Problem:
    """A case with its numbers. Contexts lie end to end in ``keys`` and ``values``, new tokens in ``query``."""

    case: Case
    query: torch.Tensor
    """[new tokens, query_heads, key_dim]"""
    keys: torch.Tensor
    """[context tokens, kv_heads, key_dim]"""
    values: torch.Tensor
    rule: AttentionRule
    slots: torch.Tensor
    """int64 [context tokens]: where each key lies."""
    num_blocks: int
    batch: PagedBatch
    """Of the new tokens."""
    expected: torch.Tensor
    """float64 [new tokens, query_heads, value_dim]"""


def make_problem(case: Case, device: torch.device, seed: int = 0) -> Problem:
    """Random numbers of order 1 for ``case``, its tables shuffled over a pool with blocks to spare."""
    random = torch.Generator().manual_seed(seed)
    query_lens = [new for new, _ in case.lens]
    contexts = [context for _, context in case.lens]
    heads = case.kv_heads * case.group

    def numbers(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=random).to(case.dtype)

    query = numbers(sum(query_lens), heads, case.key_dim)
    keys = numbers(sum(contexts), case.kv_heads, case.key_dim)
    values = numbers(sum(contexts), case.kv_heads, case.value_dim)
    sinks = torch.randn(heads, generator=random) if case.sinks else None
    rule = AttentionRule(case.key_dim**-0.5, case.window, case.chunk, case.softcap, sinks)

    needed = [-(-context // case.block_size) for context in contexts]
    num_blocks = sum(needed) + 3
    free = torch.randperm(num_blocks, generator=random).tolist()
    tables = torch.zeros(len(contexts), max(needed), dtype=torch.int32)
    for table, count in zip(tables, needed, strict=True):
        table[:count] = torch.tensor(free[:count], dtype=torch.int32)
        free = free[count:]
    slots = [_slots(table, context, case.block_size) for table, context in zip(tables, contexts, strict=True)]
    new_slots = [seq_slots[len(seq_slots) - new :] for seq_slots, new in zip(slots, query_lens, strict=True)]
    starts = [sum(query_lens[:index]) for index in range(len(query_lens) + 1)]
    batch = PagedBatch(
        block_size=case.block_size,
        num_decodes=sum(new == 1 for new in query_lens),
        slots=torch.cat(new_slots).to(device),
        block_tables=tables.to(device),
        context_lens=torch.tensor(contexts, dtype=torch.int32, device=device),
        query_starts=torch.tensor(starts, dtype=torch.int32, device=device),
        host_block_tables=tables,
        host_context_lens=contexts,
        host_query_starts=starts,
    )
    expected = _answer(query, keys, values, rule, starts, contexts)
    return Problem(
        case=case,
        query=query.to(device),
        keys=keys.to(device),
        values=values.to(device),
        rule=rule if sinks is None else AttentionRule(rule.scaling, *_limits(rule), sinks.to(device)),
        slots=torch.cat(slots).to(device),
        num_blocks=num_blocks,
        batch=batch,
        expected=expected,
    )


def worst_difference(kernels: Kernels, case: Case, device: torch.device) -> float:
    """Store and attend with ``kernels``; returns the largest absolute difference from float64 (infinite for a NaN)."""
    problem = make_problem(case, device)
    shape = (problem.num_blocks, case.block_size, case.kv_heads, case.key_dim, case.value_dim)
    pool = LayerPool.allocate(*shape, dtype=case.dtype, device=device, head_major=kernels.head_major)
    pool.fill(float("nan"))
    kernels.store(problem.keys, problem.values, pool, problem.slots)
    return difference(kernels.begin(problem.batch)(problem.query, pool, problem.rule), problem.expected)


def difference(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest absolute difference, infinite if any is not a number."""
    worst = (actual.double().cpu() - expected).abs().max().item()
    return worst if worst == worst else float("inf")


def _limits(rule: AttentionRule) -> tuple[int, int, float]:
    return rule.window, rule.chunk, rule.softcap


def _slots(table: torch.Tensor, context: int, block_size: int) -> torch.Tensor:
    positions = torch.arange(context)
    return table[positions // block_size].long() * block_size + positions % block_size


def _answer(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    rule: AttentionRule,
    starts: list[int],
    contexts: list[int],
) -> torch.Tensor:
    """The formula, a query at a time: softmax over the keys it sees, one more logit in the sum for a sink."""
    group = query.shape[1] // keys.shape[1]
    out = torch.zeros(query.shape[0], query.shape[1], values.shape[2], dtype=torch.float64)
    first_key = 0
    for (start, stop), context in zip(pairwise(starts), contexts, strict=True):
        for token in range(start, stop):
            position = context - (stop - token)
            seen = slice(first_key + rule.first_visible(position), first_key + position + 1)
            key = keys[seen].double().repeat_interleave(group, 1)
            value = values[seen].double().repeat_interleave(group, 1)
            scores = (query[token].double() * key).sum(-1) * rule.scaling
            if rule.softcap:
                scores = rule.softcap * (scores / rule.softcap).tanh()
            weights = scores.exp()
            total = weights.sum(0)
            if rule.sinks is not None:
                total = total + rule.sinks.double().exp()
            out[token] = (weights[..., None] * value).sum(0) / total[:, None]
        first_key += context
    return out
