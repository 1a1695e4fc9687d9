"""What makes Triton compile a kernel anew: a layer's constants, and nothing that changes from step to step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from kvtop.kernels.paged import AttentionRule, LayerPool
from kvtop.kernels.triton_decode import decode_attention
from kvtop.kernels.triton_prefill import prefill_attention
from kvtop.kernels.triton_splits import SplitWorkspace
from kvtop.kernels.triton_tuning import DecodeTuning, PrefillTuning
from tests.kernels.ahead_of_time import TARGETS

DECODE = DecodeTuning(tile=16, num_warps=1, num_stages=1, programs_per_sm=1, min_split=16)
PREFILL = PrefillTuning(rows=16, tile=16, num_warps=1, num_stages=1)
PLAIN = AttentionRule(0.125)


class NoGpu:
    """Lets the launcher specialize and compile for a Hopper that is not here."""

    def get_current_target(self) -> Any:
        return TARGETS["sm_90"]

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many different kernels the launches so far needed."""
    kernels: list[Any] = []
    run = JITFunction.run

    def compile_only(function: Any, *arguments: Any, grid: Any, warmup: bool, **keywords: Any) -> None:
        kernels.append(run(function, *arguments, grid=grid, warmup=True, **keywords))

    monkeypatch.setattr(JITFunction, "run", compile_only)
    monkeypatch.setattr(driver, "_active", NoGpu())
    return lambda: len({id(kernel) for kernel in kernels})


def ints(*shape: int, misaligned: int = 0) -> torch.Tensor:
    """int32 ones that begin ``misaligned`` numbers into their memory, as slices of a batch do."""
    size = torch.Size(shape).numel()
    return torch.ones(size + misaligned, dtype=torch.int32)[misaligned:].view(shape)


def pool() -> LayerPool:
    return LayerPool.allocate(8, 16, 2, 64, 64, dtype=torch.float16, device=torch.device("cpu"))


def test_decode_compiles_once_for_batches_table_widths_and_slices_of_any_kind(compiled):
    kv = pool()
    room = SplitWorkspace(torch.empty(76, 8, 64), torch.empty(76, 8, 2), 12)
    for batch, width, misaligned in ((4, 7, 0), (1, 1, 1), (16, 16, 2), (33, 17, 3)):
        query = torch.empty(batch, 8, 64, dtype=torch.float16)
        tables, contexts = ints(batch, width, misaligned=misaligned), ints(batch, misaligned=misaligned)
        decode_attention(query, kv.key, kv.value, tables, contexts, PLAIN, workspace=room, tuning=DECODE)
    assert compiled() == 2  # the kernel and the one that joins splits


def test_prefill_compiles_once_for_batches_table_widths_and_slices_of_any_kind(compiled):
    kv = pool()
    query = torch.empty(40, 8, 64, dtype=torch.float16)
    for batch, width, misaligned in ((4, 7, 0), (1, 1, 1), (16, 16, 2), (33, 17, 3)):
        tables, contexts = ints(batch, width, misaligned=misaligned), ints(batch, misaligned=misaligned)
        starts = ints(batch + 1, misaligned=misaligned)
        prefill_attention(query, kv.key, kv.value, tables, starts, contexts, PLAIN, tuning=PREFILL)
    assert compiled() == 1


def test_a_layer_with_a_window_has_a_kernel_of_its_own(compiled):
    kv = pool()
    query = torch.empty(2, 8, 64, dtype=torch.float16)
    for rule in (PLAIN, AttentionRule(0.125, window=128), PLAIN):
        decode_attention(query, kv.key, kv.value, ints(2, 4), ints(2), rule, tuning=DECODE)
    assert compiled() == 2
