"""What the two attention kernels share on the device: which keys a query sees, and one tile of online softmax.

One idea: the masks are written once, here, so that decode and prefill cannot disagree about a window's edge. Scores
are kept in units of log2, because the hardware has exp2. Nothing here reads or writes a pool.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

DOT_DTYPES = {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}
"""What products are taken in; float32 in the interpreter, which multiplies bfloat16 wrongly and says nothing."""

LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def first_visible(position, WINDOW: tl.constexpr, CHUNK: tl.constexpr):
    """The first key that the query at ``position`` sees: its last WINDOW keys, within its chunk (0: no such limit)."""
    first = position * 0
    if WINDOW > 0:
        first = tl.maximum(first, position - (WINDOW - 1))
    if CHUNK > 0:
        first = tl.maximum(first, position // CHUNK * CHUNK)
    return first


@triton.jit
def log2_scores(products, scale, SOFTCAP: tl.constexpr):
    """Scaled, soft-capped scores times log2(e). tanh(x) = 1 - 2 / (exp(2x) + 1) needs no external library."""
    if SOFTCAP > 0:
        grown = tl.exp2(products * (scale * (2.0 * LOG2_E / SOFTCAP)))
        return (1.0 - 2.0 / (grown + 1.0)) * (SOFTCAP * LOG2_E)
    return products * (scale * LOG2_E)


@triton.jit
def fold_tile(
    accumulated,
    highest,
    total,
    scores,
    value,
    MASKED: tl.constexpr,
    DOT_DTYPE: tl.constexpr,
    DOT_PRECISION: tl.constexpr,
):
    """One tile of online softmax: ``scores`` [rows, tile] in log2, ``value`` [tile, dim]. A masked score is -inf."""
    raised = tl.maximum(highest, tl.max(scores, 1))
    base = raised
    if MASKED:
        # A row that has seen no key yet: -inf minus -inf would be NaN.
        base = tl.where(raised == float("-inf"), 0.0, raised)
    weights = tl.exp2(scores - base[:, None])
    shrink = tl.exp2(highest - base)
    total = total * shrink + tl.sum(weights, 1)
    accumulated = accumulated * shrink[:, None]
    accumulated = tl.dot(weights.to(DOT_DTYPE), value.to(DOT_DTYPE), accumulated, input_precision=DOT_PRECISION)
    return accumulated, raised, total


@triton.jit
def add_sink(accumulated, highest, total, sink):
    """Add one logit a row to the denominator (attention sinks; ``sink`` [rows] is neither scaled nor capped)."""
    sink = sink.to(tl.float32) * LOG2_E
    raised = tl.maximum(highest, sink)
    shrink = tl.exp2(highest - raised)
    return accumulated * shrink[:, None], raised, total * shrink + tl.exp2(sink - raised)
