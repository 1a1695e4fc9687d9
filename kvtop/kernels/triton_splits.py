"""Split-KV: how a decode batch's keys are cut into items, where the parts wait, how they are joined.

One idea: the work is a list of items, as many as there are sequences plus a fixed number of spare ones. Every program
works out from the context lengths alone which item it is, so that the grid and the workspace never change (a CUDA
graph replays them) while the spare items go to the long sequences. With T visible keys in the batch and E spare items,
splits of s >= T / E keys give each sequence ceil(keys / s) items, and

    sum of ceil(keys / s)  <=  sequences + T / s  <=  sequences + E.

Within a sequence the splits are then made equal, in whole tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from kvtop.kernels.paged import AttentionRule
from kvtop.kernels.triton_tiles import LOG2_E, first_visible
from kvtop.kernels.triton_tuning import FUSED, DecodeTuning

_SPLITS_A_STEP = 16


@triton.jit
def shares(
    context_lens,
    num_seqs,
    spare_items,
    SEQS_PADDED: tl.constexpr,
    MIN_SPLIT: tl.constexpr,
    WINDOW: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Each sequence's items and the item after its last, [SEQS_PADDED]."""
    rows = tl.arange(0, SEQS_PADDED)
    contexts = tl.load(context_lens + rows, mask=rows < num_seqs, other=0)
    keys = contexts - first_visible(tl.maximum(contexts - 1, 0), WINDOW, CHUNK)
    total_keys = tl.sum(keys, 0)
    split_keys = tl.maximum(tl.cdiv(tl.cdiv(total_keys, spare_items), MIN_SPLIT), 1) * MIN_SPLIT
    items = tl.where(rows < num_seqs, tl.maximum(tl.cdiv(keys, split_keys), 1), 0)
    return items, tl.cumsum(items, 0)


@triton.jit(do_not_specialize=["context_lens", "num_seqs", "spare_items"])
def _reduce_kernel(
    output,
    partial_values,
    partial_stats,
    context_lens,
    sinks,
    num_seqs,
    spare_items,
    output_seq_stride,
    output_head_stride,
    VALUE_DIM: tl.constexpr,
    WINDOW: tl.constexpr,
    CHUNK: tl.constexpr,
    HAS_SINKS: tl.constexpr,
    SEQS_PADDED: tl.constexpr,
    VALUE_DIM_PADDED: tl.constexpr,
    MIN_SPLIT: tl.constexpr,
    SPLITS_A_STEP: tl.constexpr,
):
    head = tl.program_id(0)
    seq = tl.program_id(1)
    items, ends = shares(context_lens, num_seqs, spare_items, SEQS_PADDED, MIN_SPLIT, WINDOW, CHUNK)
    mine = tl.arange(0, SEQS_PADDED) == seq
    num_splits = tl.sum(tl.where(mine, items, 0), 0)
    if num_splits == 1:
        # Written by the decode kernel itself.
        return
    last = tl.sum(tl.where(mine, ends, 0), 0)
    dims = tl.arange(0, VALUE_DIM_PADDED)
    accumulated = tl.zeros([VALUE_DIM_PADDED], tl.float32)
    highest = float("-inf")
    total = 0.0
    for start in range(last - num_splits, last, SPLITS_A_STEP):
        item = start + tl.arange(0, SPLITS_A_STEP)
        used = item < last
        partial = item.to(tl.int64) * tl.num_programs(0) + head
        maxima = tl.load(partial_stats + 2 * partial, mask=used, other=float("-inf"))
        sums = tl.load(partial_stats + 2 * partial + 1, mask=used, other=0.0)
        inside = used[:, None] & (dims < VALUE_DIM)[None, :]
        values = tl.load(partial_values + partial[:, None] * VALUE_DIM + dims[None, :], mask=inside, other=0.0)
        raised = tl.maximum(highest, tl.max(maxima, 0))
        weights = tl.exp2(maxima - raised)
        shrink = tl.exp2(highest - raised)
        accumulated = accumulated * shrink + tl.sum(values * weights[:, None], 0)
        total = total * shrink + tl.sum(sums * weights, 0)
        highest = raised
    if HAS_SINKS:
        sink = tl.load(sinks + head).to(tl.float32) * LOG2_E
        raised = tl.maximum(highest, sink)
        shrink = tl.exp2(highest - raised)
        accumulated = accumulated * shrink
        total = total * shrink + tl.exp2(sink - raised)
    target = output + seq.to(tl.int64) * output_seq_stride + head * output_head_stride + dims
    tl.store(target, (accumulated / total).to(output.dtype.element_ty), mask=dims < VALUE_DIM)


@dataclass(frozen=True, slots=True)
class SplitWorkspace:
    """Where splits leave their parts: allocated once, shared by a stream's layers, its address safe in CUDA graphs."""

    values: torch.Tensor
    """float32 [items, query_heads, value_dim]: weighted values of a split, not yet divided by its sum."""
    stats: torch.Tensor
    """float32 [items, query_heads, 2]: a split's highest score (in log2) and its sum of weights."""
    spare_items: int
    """Items beyond one a sequence."""

    @classmethod
    def allocate(
        cls,
        max_num_seqs: int,
        query_heads: int,
        kv_heads: int,
        value_dim: int,
        tuning: DecodeTuning,
        device: torch.device,
    ) -> SplitWorkspace:
        """Room for ``max_num_seqs`` sequences and enough spare items to give every multiprocessor its programs."""
        multiprocessors = 1
        if device.type == "cuda":
            multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
        spare_items = triton.cdiv(multiprocessors * tuning.programs_per_sm, kv_heads)
        items = max_num_seqs + spare_items
        return cls(
            torch.empty(items, query_heads, value_dim, dtype=torch.float32, device=device),
            torch.empty(items, query_heads, 2, dtype=torch.float32, device=device),
            spare_items,
        )


def join_splits(
    out: torch.Tensor, workspace: SplitWorkspace, context_lens: torch.Tensor, rule: AttentionRule, min_split: int
) -> None:
    """Write the rows of ``out`` [seqs, query_heads, value_dim] whose sequences were split, from their parts."""
    num_seqs, query_heads, value_dim = out.shape
    _reduce_kernel[(query_heads, num_seqs)](
        out,
        workspace.values,
        workspace.stats,
        context_lens,
        rule.sinks,
        num_seqs,
        workspace.spare_items,
        out.stride(0),
        out.stride(1),
        VALUE_DIM=value_dim,
        WINDOW=rule.window,
        CHUNK=rule.chunk,
        HAS_SINKS=rule.sinks is not None,
        SEQS_PADDED=seqs_padded(num_seqs),
        VALUE_DIM_PADDED=triton.next_power_of_2(value_dim),
        MIN_SPLIT=min_split,
        SPLITS_A_STEP=_SPLITS_A_STEP,
        num_warps=2,
        **FUSED,
    )


def seqs_padded(num_seqs: int) -> int:
    """The size of the vectors that hold a number a sequence: few distinct values, so few compilations."""
    return max(64, triton.next_power_of_2(num_seqs))
