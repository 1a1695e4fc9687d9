"""Put packed linears into a model that runs through the hook, and take them out again.

One idea: only modules that are exactly ``torch.nn.Linear`` are replaced, one by one, so any family's forward stays as
it is. The replaced modules are kept until the logits were checked; a family that reaches into its weights directly
then gets them back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kvtop.kernels.linear import PackedLinear, packing_works


class PackedModule(torch.nn.Module):
    """A linear module whose weight only oneDNN can read."""

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        self._linear = PackedLinear(linear.weight, linear.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._linear(x)


def pack_linears(model: Any) -> Callable[[], None] | None:
    """Replace the linear modules of ``model``; returns what undoes it, or None where packing does not work here."""
    if model.device.type != "cpu" or not packing_works(model.dtype):
        return None
    replaced: list[tuple[torch.nn.Module, str, torch.nn.Linear]] = []
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if type(child) is torch.nn.Linear and child.weight.dtype == model.dtype:
                setattr(parent, name, PackedModule(child))
                replaced.append((parent, name, child))

    def undo() -> None:
        for parent, name, child in replaced:
            setattr(parent, name, child)

    return undo
