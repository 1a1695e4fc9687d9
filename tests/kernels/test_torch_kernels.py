"""The kernels that need torch alone, against the formula in float64."""

from __future__ import annotations

import pytest
import torch

from kvtop.kernels.agreement import TOLERANCE, Case, worst_difference
from kvtop.kernels.cpu import CpuKernels
from kvtop.kernels.dispatch import Kernels, ReferenceKernels
from kvtop.kernels.paged import AttentionRule
from kvtop.kernels.reference import visible
from tests.kernels.cases import DECODE, PREFILL

CPU = torch.device("cpu")
LARGE = [
    Case("many decodes of all lengths", tuple((1, 7 + 37 * index) for index in range(40)), kv_heads=3, group=3),
    Case("equal decodes", ((1, 64),) * 24, kv_heads=3, group=3),
    Case("a prompt of several tiles behind a context", ((1, 3), (300, 700)), kv_heads=1, group=2),
    Case("a whole prompt of several tiles in a window", ((600, 600),), kv_heads=1, group=2, window=100),
    Case("a long decode with sinks and soft-cap", ((1, 900),), sinks=True, softcap=2.0),
    Case("bfloat16, many keys", ((1, 900), (1, 950)), dtype=torch.bfloat16),
]


@pytest.mark.parametrize("kernels", [ReferenceKernels(), CpuKernels()], ids=lambda kernels: kernels.name)
@pytest.mark.parametrize("case", [*DECODE, *PREFILL, *LARGE], ids=lambda case: case.name)
def test_attention_over_shuffled_pages_amid_nan_is_the_formula(case: Case, kernels: Kernels) -> None:
    assert worst_difference(kernels, case, CPU) <= TOLERANCE[case.dtype]


def test_a_window_of_4_at_length_16_shows_each_query_exactly_its_last_4_keys() -> None:
    positions = torch.arange(16)
    seen = visible(positions, positions, AttentionRule(1.0, window=4))
    for query in range(16):
        assert seen[query].nonzero().flatten().tolist() == list(range(max(0, query - 3), query + 1))
        assert AttentionRule(1.0, window=4).first_visible(query) == max(0, query - 3)


def test_chunks_of_4_show_each_query_its_own_chunk_so_far() -> None:
    positions = torch.arange(16)
    seen = visible(positions, positions, AttentionRule(1.0, chunk=4))
    for query in range(16):
        assert seen[query].nonzero().flatten().tolist() == list(range(query // 4 * 4, query + 1))
