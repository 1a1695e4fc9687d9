"""Which forward a loaded model gets: the fastest one whose logits are those of the plain model.

One idea: nothing is trusted for its class or its torch version; each candidate is tried, the plain hook last, and that
one must hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvtop.engine import flat_decoder
from kvtop.engine.memory import free_bytes
from kvtop.engine.packing import pack_linears
from kvtop.engine.runner import Forward
from kvtop.failure import Failure


def fastest_forward(model: Any, hooked: Forward, check: Callable[[Forward], None]) -> Forward:
    """A forward for ``model``, which ``hooked`` runs through the attention hook. ``check`` raises Failure for a forward
    whose logits are wrong.

    Raises:
        Failure: even the plain hook gives other logits.
    """
    if _weight_bytes(model) > free_bytes(model.device):  # the faster forwards copy the weights
        check(hooked)
        return hooked
    if flat_decoder.fits(model):
        flat = flat_decoder.FlatDecoder(model)
        if _holds(flat, check):
            return flat
    undo = pack_linears(model)
    if undo is not None:
        if _holds(hooked, check):
            return hooked
        undo()
    check(hooked)
    return hooked


def _weight_bytes(model: Any) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())


def _holds(forward: Forward, check: Callable[[Forward], None]) -> bool:
    try:
        check(forward)
    except (Failure, RuntimeError, AttributeError):  # the last two: a family that looks into modules we replaced
        return False
    return True
