"""How large the GPU check is: as it runs on a card, and small enough for a CPU and Triton's interpreter.

Both scales go through the same code, so that a run on a card does not meet a line for the first time.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A Llama; weights are random."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    vocabulary: int
    dtype: torch.dtype

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads


@dataclass(frozen=True, slots=True)
class Scale:
    """Everything that is counted, sized or swept."""

    name: str
    model: ModelShape
    """Its layers' shape is also that of the kernels' measurements."""
    small_model: ModelShape
    """float32, for tokens that must be equal."""
    agreement_dtypes: tuple[torch.dtype, ...]
    agreement_every: int
    """Which of the tests' problems are asked: every n-th."""
    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    pages: tuple[int, ...]
    tuning_points: tuple[tuple[int, int], ...]
    """(batch, context) at which the decode kernel is tuned."""
    prefill_tokens: tuple[int, int]
    """(new tokens, tokens before them) at which the prefill kernel is tuned."""
    cold_bytes: int
    """K and V that are read in turns, so that no cache holds them."""
    timing_seconds: float
    """How long one measurement repeats."""
    end_to_end: tuple[tuple[int, int], ...]
    """(batch, context) of whole decode steps."""
    decode_steps: int
    prompt_tokens: int
    """Length of the prompt whose prefill is timed."""
    copied_blocks: int
    workers: int
    """Processes that compile ahead; 0: none."""


FULL = Scale(
    name="full",
    model=ModelShape(32, 4096, 14336, 32, 8, 128_256, torch.bfloat16),
    small_model=ModelShape(4, 512, 1024, 8, 2, 1000, torch.float32),
    agreement_dtypes=(torch.float32, torch.bfloat16, torch.float16),
    agreement_every=1,
    batches=(1, 8, 32, 128),
    contexts=(512, 4096, 32768),
    pages=(8, 16, 32, 128),
    tuning_points=((1, 4096), (8, 4096), (32, 4096)),
    prefill_tokens=(4096, 4096),
    cold_bytes=512 << 20,
    timing_seconds=0.1,
    end_to_end=((1, 512), (32, 512), (32, 4096)),
    decode_steps=24,
    prompt_tokens=8000,
    copied_blocks=512,
    workers=12,
)

TINY = Scale(
    name="dry run",
    model=ModelShape(2, 64, 96, 4, 2, 128, torch.float32),
    small_model=ModelShape(2, 64, 96, 4, 2, 128, torch.float32),
    agreement_dtypes=(torch.float32,),
    agreement_every=12,
    batches=(1, 2),
    contexts=(20,),
    pages=(8, 16),
    tuning_points=((1, 20),),
    prefill_tokens=(8, 8),
    cold_bytes=0,
    timing_seconds=0.0,
    end_to_end=((2, 9),),
    decode_steps=2,
    prompt_tokens=9,
    copied_blocks=3,
    workers=0,
)
