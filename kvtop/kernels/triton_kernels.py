"""The Triton kernels as one object: what a GPU runs.

One idea: everything that costs a decision or memory (tile sizes, the workspace of splits) is settled at a layer shape's
first call and kept, so that later calls only launch, and a CUDA graph may capture them once each shape has run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from kvtop.kernels.paged import AttentionRule, LayerPool, PagedBatch
from kvtop.kernels.triton_copy import copy_blocks
from kvtop.kernels.triton_decode import decode_attention
from kvtop.kernels.triton_prefill import prefill_attention
from kvtop.kernels.triton_splits import SplitWorkspace
from kvtop.kernels.triton_store import store_kv
from kvtop.kernels.triton_tuning import DecodeTuning, PrefillTuning, architecture, decode_tuning, prefill_tuning


@dataclass(frozen=True, slots=True)
class _Bound:
    """What is settled for layers of one shape."""

    decode: DecodeTuning
    prefill: PrefillTuning
    workspace: SplitWorkspace


@dataclass(slots=True)
class TritonKernels:
    """For one device. Batches of more than ``max_num_seqs`` decodes work too, but no sequence of them is split."""

    device: torch.device
    max_num_seqs: int
    name: str = "triton"
    head_major: bool = False
    _bound: dict[tuple[int, ...], _Bound] = field(default_factory=dict)

    def begin(self, batch: PagedBatch) -> TritonStep:
        return TritonStep(self, batch)

    def store(self, key: torch.Tensor, value: torch.Tensor, pool: LayerPool, slots: torch.Tensor) -> None:
        store_kv(key, value, pool.key, pool.value, slots)

    def copy_blocks(self, source: LayerPool, target: LayerPool, pairs: torch.Tensor) -> None:
        copy_blocks(source.key, target.key, pairs)
        copy_blocks(source.value, target.value, pairs)

    def bound(self, query: torch.Tensor, pool: LayerPool) -> _Bound:
        """What is settled for layers like this one; settles it at the first call."""
        query_heads, key_dim = query.shape[1:]
        kv_heads, value_dim = pool.value.shape[2:]
        shape = (query_heads, kv_heads, key_dim, value_dim, pool.dtype.itemsize)
        bound = self._bound.get(shape)
        if bound is None:
            arch, dtype, widest = architecture(self.device), pool.dtype, max(key_dim, value_dim)
            decode = decode_tuning(arch, dtype, widest)
            workspace = SplitWorkspace.allocate(
                self.max_num_seqs, query_heads, kv_heads, value_dim, decode, self.device
            )
            bound = self._bound[shape] = _Bound(decode, prefill_tuning(arch, dtype, widest), workspace)
        return bound


@dataclass(slots=True, frozen=True)
class TritonStep:
    """One step's attention, called once a layer: the decodes in one launch (two with splits), the rest in another."""

    kernels: TritonKernels
    batch: PagedBatch

    def __call__(self, query: torch.Tensor, pool: LayerPool, rule: AttentionRule) -> torch.Tensor:
        batch = self.batch
        bound = self.kernels.bound(query, pool)
        tokens, query_heads, _ = query.shape
        out = query.new_empty(tokens, query_heads, pool.value.shape[3])
        decodes = batch.num_decodes
        if decodes:
            decode_attention(
                query[:decodes],
                pool.key,
                pool.value,
                batch.block_tables[:decodes],
                batch.context_lens[:decodes],
                rule,
                out=out[:decodes],
                workspace=bound.workspace if decodes <= self.kernels.max_num_seqs else None,
                tuning=bound.decode,
            )
        if tokens > decodes:
            prefill_attention(
                query,
                pool.key,
                pool.value,
                batch.block_tables[decodes:],
                batch.query_starts[decodes:],
                batch.context_lens[decodes:],
                rule,
                out=out,
                tuning=bound.prefill,
            )
        return out
