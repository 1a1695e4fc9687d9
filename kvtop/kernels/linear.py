"""Linear layers whose weights are laid out for the CPU once, at load: oneDNN's packed layout where torch offers it.

One idea: oneDNN multiplies a weight in its own blocked layout up to twice as fast as a plain one, and can apply what
follows (activation, product, residual) before it rounds the result. The operators are private to torch, so they are
tried out on a small product first; where they are missing or wrong, ``PlainLinear`` does the same in plain torch.
"""

from __future__ import annotations

import functools
from typing import Protocol

import torch
from torch.nn.functional import linear, silu


class Linear(Protocol):
    """x W^T + b for x [tokens, inputs], and what may follow it. Results are new tensors [tokens, outputs]."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor: ...

    def swish(self, x: torch.Tensor) -> torch.Tensor:
        """silu(x W^T + b)"""
        ...

    def times(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """(x W^T + b) * other"""
        ...

    def plus(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """(x W^T + b) + other"""
        ...


class PlainLinear:
    """In plain torch, on any device."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        """``weight`` is [outputs, inputs]."""
        self._weight = weight
        self._bias = bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return linear(x, self._weight, self._bias)

    def swish(self, x: torch.Tensor) -> torch.Tensor:
        return silu(self(x))

    def times(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return self(x).mul_(other)

    def plus(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return self(x).add_(other)


class PackedLinear:
    """On oneDNN's packed layout."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        """``weight`` is [outputs, inputs]; it is copied."""
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
        self._bias = bias
        self._unary = torch.ops.mkldnn._linear_pointwise.default
        self._binary = torch.ops.mkldnn._linear_pointwise.binary

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self._unary(x, self._weight, self._bias, "none", [], "")
        return result

    def swish(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self._unary(x, self._weight, self._bias, "swish", [], "")
        return result

    def times(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self._binary(x, other, self._weight, self._bias, "mul")
        return result

    def plus(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self._binary(x, other, self._weight, self._bias, "add")
        return result


@functools.cache
def packing_works(dtype: torch.dtype) -> bool:
    """Whether this torch, on this CPU, packs linears of ``dtype`` and gets every form of them right."""
    generator = torch.Generator().manual_seed(1)
    weight, bias, x, other = (
        torch.randn(*shape, generator=generator).to(dtype) for shape in ((48, 32), (48,), (5, 32), (5, 48))
    )
    plain = PlainLinear(weight, bias)
    tolerance = 1e-5 if dtype == torch.float32 else 0.15
    try:
        packed = PackedLinear(weight, bias)
        pairs = [
            (packed(x), plain(x)),
            (packed.swish(x), plain.swish(x)),
            (packed.times(x, other), plain.times(x, other)),
            (packed.plus(x, other), plain.plus(x, other)),
        ]
    except (AttributeError, RuntimeError):  # the operator is not there, or does not take this dtype here
        return False
    return all(torch.allclose(got, wanted, rtol=tolerance / 3, atol=tolerance) for got, wanted in pairs)


def make_linear(weight: torch.Tensor, bias: torch.Tensor | None = None) -> Linear:
    """The fastest that works for ``weight`` [outputs, inputs]."""
    if weight.device.type == "cpu" and packing_works(weight.dtype):
        return PackedLinear(weight, bias)
    return PlainLinear(weight, bias)
