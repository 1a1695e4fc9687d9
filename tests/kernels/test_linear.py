"""Packed linears: what plain ones compute, and no less where torch has no packing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from kvtop.kernels import linear
from kvtop.kernels.linear import PackedLinear, PlainLinear, make_linear, packing_works

PACKED_DTYPES = [torch.float32, *([torch.bfloat16] if torch.ops.mkldnn._is_mkldnn_bf16_supported() else [])]


@pytest.fixture(autouse=True)
def fresh_feature_test() -> Iterator[None]:
    packing_works.cache_clear()
    yield
    packing_works.cache_clear()


def numbers(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("dtype", PACKED_DTYPES)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("tokens", [1, 3, 64])
def test_every_form_of_a_packed_linear_is_the_plain_one(tokens: int, biased: bool, dtype: torch.dtype) -> None:
    weight, bias = numbers(37, 50, dtype=dtype), numbers(37, dtype=dtype) if biased else None
    x, other = numbers(tokens, 50, dtype=dtype), numbers(tokens, 37, dtype=dtype)
    packed = PackedLinear(weight, bias)
    exact = PlainLinear(weight.double(), None if bias is None else bias.double())
    wide_x, wide_other = x.double(), other.double()
    rtol, atol = (1e-5, 1e-4) if dtype == torch.float32 else (2e-2, 0.1)
    for got, wanted in (
        (packed(x), exact(wide_x)),
        (packed.swish(x), exact.swish(wide_x)),
        (packed.times(x, other), exact.times(wide_x, wide_other)),
        (packed.plus(x, other), exact.plus(wide_x, wide_other)),
    ):
        torch.testing.assert_close(got.double(), wanted, rtol=rtol, atol=atol)


def test_this_torch_packs_so_that_the_tests_above_are_about_what_runs() -> None:
    assert isinstance(make_linear(numbers(8, 4, dtype=torch.float32)), PackedLinear)


def test_where_the_operator_is_gone_or_refuses_the_linear_stays_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(self: PackedLinear, *args: Any) -> None:
        raise AttributeError("'_OpNamespace' 'mkldnn' object has no attribute '_reorder_linear_weight'")

    def refuses(self: PackedLinear, *args: Any) -> None:
        raise RuntimeError("mkldnn_linear: bf16 path needs the cpu support")

    for fault in (gone, refuses):
        packing_works.cache_clear()
        monkeypatch.setattr(linear.PackedLinear, "__init__", fault)
        assert isinstance(make_linear(numbers(8, 4, dtype=torch.float32)), PlainLinear)


@pytest.mark.parametrize("form", ["__call__", "swish", "times", "plus"])
def test_where_one_form_is_wrong_the_linear_stays_plain(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = getattr(PackedLinear, form)
    monkeypatch.setattr(PackedLinear, form, lambda self, *operands: right(self, *operands) * 1.5)
    assert isinstance(make_linear(numbers(8, 4, dtype=torch.float32)), PlainLinear)
