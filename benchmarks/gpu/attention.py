"""Batches of paged attention to measure: random pages of one large pool, in the layout that runners use.

One pool serves every batch, context and page size; several block tables over disjoint blocks are read in turns, so that
what is measured comes from memory and not from a cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.gpu.scale import ModelShape
from kvtop.kernels.paged import AttentionRule
from kvtop.kernels.triton_decode import decode_attention
from kvtop.kernels.triton_prefill import prefill_attention
from kvtop.kernels.triton_splits import SplitWorkspace
from kvtop.kernels.triton_tuning import DecodeTuning, PrefillTuning


@dataclass(frozen=True, slots=True)
class Storage:
    """K and V of one layer as [slots, kv_heads, head_dim]: pages of any size are views of it."""

    shape: ModelShape
    key: torch.Tensor
    value: torch.Tensor

    @classmethod
    def allocate(cls, shape: ModelShape, slots: int, device: torch.device) -> Storage:
        key, value = (
            torch.empty(slots, shape.kv_heads, shape.head_dim, dtype=shape.dtype, device=device).normal_()
            for _ in range(2)
        )
        return cls(shape, key, value)

    @property
    def device(self) -> torch.device:
        return self.key.device

    @property
    def bytes_a_token(self) -> int:
        return 2 * self.shape.kv_heads * self.shape.head_dim * self.shape.dtype.itemsize

    def pages(self, page: int) -> tuple[torch.Tensor, torch.Tensor]:
        heads, dim = self.key.shape[1:]
        blocks = self.key.shape[0] // page
        return tuple(pool[: blocks * page].view(blocks, page, heads, dim) for pool in (self.key, self.value))  # type: ignore[return-value]

    def tables(self, batch: int, context: int, page: int, cold_bytes: int) -> list[torch.Tensor]:
        """Tables int32 [batch, blocks] of random blocks, as many as fit or as make ``cold_bytes`` of K and V."""
        each = -(-context // page)
        blocks = torch.randperm(self.key.shape[0] // page, device=self.device).to(torch.int32)
        wanted = max(1, -(-cold_bytes // (batch * context * self.bytes_a_token)))
        count = min(wanted, len(blocks) // (batch * each))
        return [blocks[i * batch * each :][: batch * each].view(batch, each) for i in range(count)]


@dataclass(frozen=True, slots=True)
class Measured:
    """Launches that do the same work on different pages."""

    launches: list[Callable[[], Any]]
    moved_bytes: int
    """K, V, query and output of one launch."""
    operations: int
    """Multiplications and additions of one launch."""


def decode(
    storage: Storage, batch: int, context: int, page: int, tuning: DecodeTuning, cold_bytes: int = 0
) -> Measured:
    """``batch`` sequences of ``context`` tokens each decode one."""
    shape, device = storage.shape, storage.device
    query = torch.randn(batch, shape.heads, shape.head_dim, device=device).to(shape.dtype)
    out = torch.empty_like(query)
    workspace = SplitWorkspace.allocate(batch, shape.heads, shape.kv_heads, shape.head_dim, tuning, device)
    key_pool, value_pool = storage.pages(page)
    context_lens = torch.full((batch,), context, dtype=torch.int32, device=device)
    rule = AttentionRule(shape.head_dim**-0.5)

    def launch(table: torch.Tensor) -> Callable[[], Any]:
        return lambda: decode_attention(
            query, key_pool, value_pool, table, context_lens, rule, out=out, workspace=workspace, tuning=tuning
        )

    return Measured(
        [launch(table) for table in storage.tables(batch, context, page, cold_bytes)],
        batch * context * storage.bytes_a_token + 2 * query.numel() * query.element_size(),
        4 * batch * context * shape.heads * shape.head_dim,
    )


def prefill(storage: Storage, new: int, before: int, page: int, tuning: PrefillTuning) -> Measured:
    """One sequence computes ``new`` tokens behind ``before`` tokens of context."""
    shape, device = storage.shape, storage.device
    query = torch.randn(new, shape.heads, shape.head_dim, device=device).to(shape.dtype)
    out = torch.empty_like(query)
    key_pool, value_pool = storage.pages(page)
    context_lens = torch.tensor([before + new], dtype=torch.int32, device=device)
    query_starts = torch.tensor([0, new], dtype=torch.int32, device=device)
    rule = AttentionRule(shape.head_dim**-0.5)
    (table,) = storage.tables(1, before + new, page, 0)

    def launch() -> None:
        prefill_attention(query, key_pool, value_pool, table, query_starts, context_lens, rule, out=out, tuning=tuning)

    pairs = new * before + new * (new + 1) // 2
    return Measured(
        [launch],
        (before + new) * storage.bytes_a_token + 2 * query.numel() * query.element_size(),
        4 * pairs * shape.heads * shape.head_dim,
    )
