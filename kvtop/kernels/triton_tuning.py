"""Tile sizes, warps and stages of the Triton kernels, by GPU generation, dtype and head size.

One idea: a shape is looked up once, when the kernels are bound to a model, and is then a plain value passed to each
launch. ``benchmarks/gpu_check.py`` tries the alternatives and prints the rows for this table. Nothing here launches.

Every row below is UNMEASURED: chosen from the compilers' reports (no spills, shared memory, loads of 16 bytes).

``num_stages``: the number of a page is carried from one iteration to the next, so no stage is spent on it, and s stages
keep s - 1 tiles of K and V in shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

FUSED = {"enable_fp_fusion": True}
"""Of every launch: products and sums in one instruction, whatever this version of Triton does by default."""


@dataclass(frozen=True, slots=True)
class DecodeTuning:
    tile: int
    """Keys taken in one iteration, whatever the block size."""
    num_warps: int
    num_stages: int
    programs_per_sm: int
    """How many programs a multiprocessor should get when few sequences would leave it idle (splits are made of it)."""
    min_split: int
    """Least keys a split, a multiple of ``tile``: below it a split costs more than it brings."""
    dot_precision: str = "ieee"
    """How float32 products are taken: plainly, or as three products of TF32, which is as exact to about 1e-6."""


@dataclass(frozen=True, slots=True)
class PrefillTuning:
    rows: int
    """Query rows of a program: tokens x query heads of one KV head."""
    tile: int
    num_warps: int
    num_stages: int
    dot_precision: str = "ieee"


def architecture(device: torch.device) -> str:
    """``sm_90``, ``gfx942``, ...; ``interpreter`` for a CPU tensor (there Triton can only be interpreted)."""
    if device.type != "cuda":
        return "interpreter"
    if torch.version.hip:
        return str(torch.cuda.get_device_properties(device).gcnArchName).split(":")[0]
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


def decode_tuning(arch: str, dtype: torch.dtype, head_dim: int) -> DecodeTuning:
    """The decode kernel's shape on ``arch`` for pools of ``dtype`` with heads of ``head_dim``."""
    if arch == "interpreter":
        return DecodeTuning(tile=16, num_warps=1, num_stages=1, programs_per_sm=1, min_split=16)
    if arch.startswith("gfx"):
        tile = 64 if dtype.itemsize == 2 else 32 if head_dim <= 128 else 16
        return DecodeTuning(tile=tile, num_warps=4, num_stages=2, programs_per_sm=4, min_split=256)
    if dtype.itemsize == 4:
        tile, warps = (32, 4) if head_dim <= 128 else (16, 8)
        return DecodeTuning(tile, warps, num_stages=2, programs_per_sm=3, min_split=256, dot_precision="tf32x3")
    tile = 128 if head_dim <= 64 else 64 if head_dim <= 128 else 32
    return DecodeTuning(tile=tile, num_warps=4, num_stages=3, programs_per_sm=3, min_split=256)


def prefill_tuning(arch: str, dtype: torch.dtype, head_dim: int) -> PrefillTuning:
    """The prefill kernel's shape on ``arch`` for pools of ``dtype`` with heads of ``head_dim``."""
    if arch == "interpreter":
        return PrefillTuning(rows=16, tile=16, num_warps=1, num_stages=1)
    if arch.startswith("gfx"):
        wide = head_dim > 128 or dtype.itemsize == 4
        tile = 32 if head_dim <= 128 or dtype.itemsize == 2 else 16
        return PrefillTuning(rows=32 if wide else 128, tile=tile, num_warps=4, num_stages=2)
    if dtype.itemsize == 4:
        size = 32 if head_dim <= 128 else 16
        return PrefillTuning(rows=size, tile=size, num_warps=8, num_stages=1, dot_precision="tf32x3")
    if head_dim > 128:
        return PrefillTuning(rows=64, tile=32, num_warps=8, num_stages=2)
    if arch in ("sm_90", "sm_100"):
        return PrefillTuning(rows=128, tile=64, num_warps=8, num_stages=3)
    return PrefillTuning(rows=128, tile=32, num_warps=8, num_stages=2)
