"""Which forward a model gets, and that a wrong one never gets through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kvtop.engine import compatibility, flat_decoder, forward_choice
from kvtop.engine.flat_decoder import FlatDecoder
from kvtop.engine.forward_choice import fastest_forward
from kvtop.engine.packing import PackedModule
from kvtop.engine.runner import Forward, HookedForward
from kvtop.failure import Failure
from kvtop.kernels.cpu import CpuKernels
from tests.engine.tiny_models import SERVED, VOCABULARY, install_hook, layer_places, make_cache, make_model


class Choice:
    """A model of ``family``, ready to choose a forward for."""

    def __init__(self, family: str, dtype: torch.dtype = torch.float32) -> None:
        self.model = make_model(SERVED[family](), dtype)
        texts = compatibility.sample_texts(VOCABULARY)
        expected = compatibility.plain_logits(self.model, texts)
        layers = install_hook(self.model)
        cache = make_cache(layers, compatibility.check_blocks(4), 4, dtype=dtype, kernels=CpuKernels())
        self.hooked = HookedForward(self.model, layer_places(layers))
        self.check: Callable[[Forward], None] = lambda forward: compatibility.check_logits(
            self.model, forward, cache, texts, expected
        )

    def choose(self) -> Forward:
        return fastest_forward(self.model, self.hooked, self.check)

    @property
    def packed(self) -> bool:
        return any(isinstance(module, PackedModule) for module in self.model.modules())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_llama_gets_the_flat_decoder_and_its_modules_stay_as_they_are(dtype: torch.dtype) -> None:
    choice = Choice("Llama", dtype)
    assert isinstance(choice.choose(), FlatDecoder)
    assert not choice.packed


def test_another_family_gets_packed_linears_behind_the_hook() -> None:
    choice = Choice("Qwen3")
    assert choice.choose() is choice.hooked
    assert choice.packed


def test_a_flat_decoder_that_computes_something_else_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Qwen3 taken for a Llama: its norms of q and k would be left out in silence."""
    monkeypatch.setattr(flat_decoder, "CLASSES", ("Qwen3ForCausalLM",))
    choice = Choice("Qwen3")
    assert flat_decoder.fits(choice.model)
    assert choice.choose() is choice.hooked


@pytest.mark.parametrize("fault", ["wrong", "missing"])
def test_packed_linears_that_are_wrong_or_break_the_family_are_taken_out(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forward(self: PackedModule, x: torch.Tensor) -> torch.Tensor:
        if fault == "missing":
            raise AttributeError("weight")
        return self._linear(x) * 1.01

    monkeypatch.setattr(PackedModule, "forward", forward)
    choice = Choice("Qwen3")
    assert choice.choose() is choice.hooked
    assert not choice.packed


def test_where_packing_does_not_work_the_plain_hook_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward_choice, "pack_linears", lambda model: None)
    choice = Choice("Qwen3")
    assert choice.choose() is choice.hooked


def test_where_there_is_no_room_for_a_copy_of_the_weights_none_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = Choice("Llama")
    weights = sum(parameter.numel() * 4 for parameter in choice.model.parameters())
    monkeypatch.setattr(forward_choice, "free_bytes", lambda device: weights - 1)
    assert choice.choose() is choice.hooked
    assert not choice.packed
    monkeypatch.setattr(forward_choice, "free_bytes", lambda device: weights)
    assert isinstance(choice.choose(), FlatDecoder)


def test_a_model_whose_plain_hook_is_wrong_is_refused() -> None:
    choice = Choice("Gemma2")
    layers: list[Any] = list(choice.model.model.layers)
    for layer in layers:
        layer.self_attn.attn_logit_softcapping = None
    with pytest.raises(Failure, match="gemma2 models"):
        choice.choose()
