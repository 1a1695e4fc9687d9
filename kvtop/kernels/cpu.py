"""Paged attention on a CPU, with torch alone: gather a context's blocks, then ordinary matrix products.

One idea: pools lie head-major, so one gather of whole blocks yields keys that are ready operands of a batched product,
and the query heads of one KV head are its rows: each key is read once. Decodes of like length share a product; what
pads the shorter ones is masked. Slots that no token of the sequence owns may hold anything: they are zeroed after the
gather, since 0 x NaN is NaN. Which blocks, masks and zeros, is planned once a step and serves all layers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import scaled_dot_product_attention

from kvtop.kernels import reference
from kvtop.kernels.paged import AttentionRule, LayerPool, PagedBatch

_MOST_PADDING = 512
"""Keys that may be gathered for nothing in one group of decodes: about what one more group costs."""
_MOST_KEYS = 4096
"""Keys of a group, so that it stays in the cache between the gather and the products."""
_FEW_KEYS = 512
"""Up to which torch's fused attention beats two products and a softmax."""
_QUERY_TILE = 256
"""Queries of a prompt that share a mask."""


class CpuKernels:
    """For any torch on any CPU."""

    name = "cpu"
    head_major = True

    def begin(self, batch: PagedBatch) -> CpuStep:
        return CpuStep(batch)

    def store(self, key: torch.Tensor, value: torch.Tensor, pool: LayerPool, slots: torch.Tensor) -> None:
        reference.store_kv(key, value, pool.key, pool.value, slots)

    def copy_blocks(self, source: LayerPool, target: LayerPool, pairs: torch.Tensor) -> None:
        reference.copy_blocks(source.key, target.key, pairs)
        reference.copy_blocks(source.value, target.value, pairs)


class CpuStep:
    """One step's attention, called once a layer."""

    def __init__(self, batch: PagedBatch) -> None:
        self._batch = batch
        self._plans: dict[tuple[int, int], list[_Group]] = {}

    def __call__(self, query: torch.Tensor, pool: LayerPool, rule: AttentionRule) -> torch.Tensor:
        groups = self._plans.get((rule.window, rule.chunk))
        if groups is None:
            groups = self._plans[rule.window, rule.chunk] = _plan(self._batch, rule)
        if len(groups) == 1:
            return groups[0].attend(query, pool, rule)
        return torch.cat([group.attend(query[group.tokens], pool, rule) for group in groups])


@dataclass(slots=True)
class _Group:
    """Neighbours in the batch that are attended together: ``sequences`` of them, ``queries`` tokens each."""

    tokens: slice
    """Their places in the batch."""
    sequences: int
    queries: int
    blocks: torch.Tensor
    """int64 [sequences * blocks each]: what to gather."""
    strays: torch.Tensor | None
    """int64: gathered keys that are no token of their sequence; None where there are none."""
    hidden: torch.Tensor | None
    """float32 [sequences, queries, keys]: -inf where a query does not see a key, else 0; None where all see all, or
    where the order of positions says it."""
    causal: bool
    """Query i of ``queries`` sees keys 0 to i and no mask is needed."""
    pages: tuple[tuple[int, int], torch.Tensor] | None = None
    """What :meth:`_pages` found for the last (kv_heads, num_blocks)."""

    def attend(self, query: torch.Tensor, pool: LayerPool, rule: AttentionRule) -> torch.Tensor:
        """``query`` [sequences * queries, query_heads, key_dim] → [same, query_heads, value_dim]."""
        kv_heads = pool.key.shape[2]
        group = query.shape[1] // kv_heads
        key, value = self._gather(pool.key), self._gather(pool.value)
        # [kv_heads, sequences, group, queries, dim]: the heads of a group and their queries are rows of one product
        rows = query.view(self.sequences, self.queries, kv_heads, group, -1).permute(2, 0, 3, 1, 4)
        few = self.sequences * key.shape[2] <= _FEW_KEYS or self.queries > 1
        if few and not rule.softcap and rule.sinks is None:
            out = self._attend_fused(rows, key, value, rule)
        else:
            out = self._attend_stepwise(rows, key, value, rule)
        return out.permute(1, 3, 0, 2, 4).reshape(len(query), query.shape[1], -1)

    def _gather(self, pool: torch.Tensor) -> torch.Tensor:
        """[kv_heads, sequences, keys, dim]"""
        num_blocks, block_size, kv_heads, dim = pool.shape
        pages = pool.permute(2, 0, 1, 3).view(kv_heads * num_blocks, block_size * dim)
        gathered = pages.index_select(
            0, self._pages(kv_heads, num_blocks)
        )  # along the first dimension torch uses threads
        if self.strays is not None:
            gathered.view(kv_heads, -1, dim).index_fill_(1, self.strays, 0)
        return gathered.view(kv_heads, self.sequences, -1, dim)

    def _pages(self, kv_heads: int, num_blocks: int) -> torch.Tensor:
        """``blocks`` of every head, where the heads' blocks lie one after the other; the same for most layers."""
        if self.pages is None or self.pages[0] != (kv_heads, num_blocks):
            heads = torch.arange(kv_heads)[:, None] * num_blocks
            self.pages = (kv_heads, num_blocks), (heads + self.blocks).flatten()
        return self.pages[1]

    def _attend_fused(
        self, rows: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rule: AttentionRule
    ) -> torch.Tensor:
        if self.queries == 1:
            mask = None if self.hidden is None else self.hidden.to(rows.dtype)[None]
            out = scaled_dot_product_attention(rows.squeeze(3), key, value, attn_mask=mask, scale=rule.scaling)
            return out.unsqueeze(3)
        group = rows.shape[2]
        heads = rows.squeeze(1), key.expand(-1, group, -1, -1), value.expand(-1, group, -1, -1)
        mask = None if self.hidden is None else self.hidden[0].to(rows.dtype)
        out = scaled_dot_product_attention(*heads, attn_mask=mask, is_causal=self.causal, scale=rule.scaling)
        return out.unsqueeze(1)

    def _attend_stepwise(
        self, rows: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rule: AttentionRule
    ) -> torch.Tensor:
        kv_heads, sequences, group, queries, dim = rows.shape
        keys = key.shape[2]
        flat_key, flat_value = key.flatten(0, 1), value.flatten(0, 1)
        products = torch.bmm(rows.reshape(kv_heads * sequences, group * queries, dim), flat_key.transpose(1, 2))
        scores = products.float().view(kv_heads, sequences, group, queries, keys).mul_(rule.scaling)
        if rule.softcap:
            scores = scores.div_(rule.softcap).tanh_().mul_(rule.softcap)
        if self.hidden is not None:
            scores += self.hidden[:, None]
        if rule.sinks is not None:
            sinks = rule.sinks.float().view(kv_heads, 1, group, 1, 1).expand(-1, sequences, -1, queries, 1)
            weights = torch.cat([scores, sinks], dim=-1).softmax(dim=-1)[..., :-1]
        else:
            weights = scores.softmax(dim=-1)
        flat_weights = weights.to(value.dtype).reshape(kv_heads * sequences, group * queries, keys)
        return torch.bmm(flat_weights, flat_value).view(kv_heads, sequences, group, queries, -1)


def _plan(batch: PagedBatch, rule: AttentionRule) -> list[_Group]:
    """The groups of a batch, in its order."""
    starts, contexts = batch.host_query_starts, batch.host_context_lens
    firsts = [rule.first_visible(contexts[i] - 1) for i in range(batch.num_decodes)]
    groups = [
        _decode_group(batch, range(start, stop), firsts[start:stop])
        for start, stop in _alike([contexts[i] - first for i, first in enumerate(firsts)])
    ]
    for sequence in range(batch.num_decodes, len(contexts)):
        context = contexts[sequence]
        new = starts[sequence + 1] - starts[sequence]
        needs_mask = new < context or bool(rule.window or rule.chunk) or bool(rule.softcap) or rule.sinks is not None
        tile = _QUERY_TILE if needs_mask else new
        for offset in range(0, new, tile):
            position = context - new + offset
            count = min(tile, new - offset)
            groups.append(_prompt_group(batch, sequence, starts[sequence] + offset, position, count, rule, needs_mask))
    return groups


def _alike(lens: list[int]) -> list[tuple[int, int]]:
    """Cut decodes that see ``lens`` keys, in order, into runs that may be padded to their longest."""
    runs = []
    start, longest, total = 0, 0, 0
    for place, keys in enumerate(lens):
        width = max(longest, keys)
        count = place - start + 1
        if place > start and (width * count > _MOST_KEYS or width * count - total - keys > _MOST_PADDING):
            runs.append((start, place))
            start, width, total = place, keys, 0
        longest, total = width, total + keys
    if lens:
        runs.append((start, len(lens)))
    return runs


def _decode_group(batch: PagedBatch, sequences: range, firsts: list[int]) -> _Group:
    """Sequences that compute one token each; sequence i sees keys from ``firsts[i]`` on."""
    size = batch.block_size
    first = torch.tensor(firsts)[:, None]
    context = torch.tensor(batch.host_context_lens[sequences.start : sequences.stop])[:, None]
    first_block = first // size
    blocks_each = int(((context - 1) // size - first_block).max()) + 1
    logical = (first_block + torch.arange(blocks_each)).clamp(max=batch.host_block_tables.shape[1] - 1)
    blocks = batch.host_block_tables[sequences.start : sequences.stop].gather(1, logical)
    positions = first_block * size + torch.arange(blocks_each * size)
    stray = positions >= context
    unseen = stray | (positions < first)
    return _Group(
        tokens=slice(sequences.start, sequences.stop),
        sequences=len(sequences),
        queries=1,
        blocks=blocks.flatten().long(),
        strays=stray.flatten().nonzero().flatten() if stray.any() else None,
        hidden=torch.zeros(unseen.shape).masked_fill_(unseen, float("-inf"))[:, None] if unseen.any() else None,
        causal=False,
    )


def _prompt_group(
    batch: PagedBatch, sequence: int, token: int, position: int, count: int, rule: AttentionRule, needs_mask: bool
) -> _Group:
    """``count`` tokens of one sequence, the first at place ``token`` of the batch and at ``position`` of its text."""
    size = batch.block_size
    first_block = rule.first_visible(position) // size
    stop = position + count
    blocks = batch.host_block_tables[sequence, first_block : -(-stop // size)].long()
    positions = first_block * size + torch.arange(len(blocks) * size)
    strays = (positions >= stop).nonzero().flatten()
    hidden = None
    if needs_mask:
        seen = reference.visible(torch.arange(position, stop), positions, rule)
        hidden = torch.zeros(seen.shape).masked_fill_(~seen, float("-inf"))[None]
    return _Group(
        tokens=slice(token, token + count),
        sequences=1,
        queries=count,
        blocks=blocks,
        strays=strays if len(strays) else None,
        hidden=hidden,
        causal=not needs_mask,
    )
