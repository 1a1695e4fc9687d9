"""Model families on paged KV: windows, chunks, soft caps, sinks, odd positions; and those that cannot run on it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvtop.engine import compatibility, flat_decoder, hook
from kvtop.engine.kv_cache import KVCache
from kvtop.engine.packing import pack_linears
from kvtop.engine.runner import Forward, HookedForward
from kvtop.engine.step_inputs import StepTables
from kvtop.failure import Failure
from kvtop.kernels.cpu import CpuKernels
from kvtop.kernels.dispatch import Kernels, ReferenceKernels
from tests.engine.plan_maker import PlanMaker
from tests.engine.tiny_models import REFUSED, SERVED, VOCABULARY, install_hook, layer_places, make_cache, make_model

CONTEXT = 40
TEXT_LENS = (CONTEXT, 23, 31)
PIECES = ((7, 5, 31), (13, 1, 0), (1, 1, 0), (18, 15, 0), (1, 1, 0))
"""How many tokens of each text are computed in each step: chunks beside decodes, short of the window and beyond it."""


def relative_errors(
    forward: Forward, cache: KVCache, texts: list[list[int]], expected: list[torch.Tensor]
) -> torch.Tensor:
    """For every position of every text: the error of its logits relative to their size."""
    maker = PlanMaker(cache.num_blocks, cache.block_size, seed=11)
    tables = StepTables(cache.block_size, torch.device("cpu"))
    sequences = [maker.sequence(text) for text in texts]
    errors = []
    for pieces in PIECES:
        scheduled = [maker.schedule(sequences[text], count) for text, count in enumerate(pieces) if count]
        inputs = tables.lay_out(maker.plan(*scheduled))
        with torch.inference_mode():
            logits = forward(inputs, cache, torch.arange(inputs.token_ids.shape[1]))
        starts = inputs.batch.host_query_starts
        for place, index in enumerate(inputs.entries):
            entry = scheduled[index]
            wanted = expected[sequences.index(entry.sequence)][entry.start : entry.start + entry.count]
            got = logits[starts[place] : starts[place + 1]]
            errors.append((got - wanted).norm(dim=-1) / wanted.norm(dim=-1))
        if pieces[2]:  # the third text is done: its blocks are freed, that is poisoned, and will be taken again
            for pool in cache.layers:
                pool.key[sequences[2].table.block_ids] = torch.nan
                pool.value[sequences[2].table.block_ids] = torch.nan
            maker.free += sequences[2].table.block_ids
            tables.release(sequences[2])
    assert sequences[0].computed == CONTEXT
    return torch.cat(errors)


def some_texts() -> list[list[int]]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randint(VOCABULARY, (length,), generator=generator).tolist() for length in TEXT_LENS]


@pytest.mark.parametrize(
    ("kernels", "block_size"),
    [(ReferenceKernels(), 4), (CpuKernels(), 1), (CpuKernels(), 16)],
    ids=["reference-4", "cpu-1", "cpu-16"],
)
@pytest.mark.parametrize("family", SERVED)
def test_logits_equal_the_plain_model_through_chunks_mixed_batches_and_scattered_poisoned_blocks(
    family: str, kernels: Kernels, block_size: int
) -> None:
    model = make_model(SERVED[family]())
    texts = some_texts()
    expected = compatibility.plain_logits(model, texts)
    layers = install_hook(model)
    cache = make_cache(layers, num_blocks=sum(TEXT_LENS), block_size=block_size, kernels=kernels)
    errors = relative_errors(HookedForward(model, layer_places(layers)), cache, texts, expected)
    assert float(errors.max()) < 1e-5


@pytest.mark.parametrize("family", SERVED)
def test_packed_linears_keep_the_logits_of_a_family_and_can_be_taken_out_again(family: str) -> None:
    model = make_model(SERVED[family]())
    texts = some_texts()
    expected = compatibility.plain_logits(model, texts)
    layers = install_hook(model)
    linears = {name: module for name, module in model.named_modules() if type(module) is torch.nn.Linear}
    undo = pack_linears(model)
    assert undo is not None, "this torch packs linears, so that the test is one"
    assert not any(type(module) is torch.nn.Linear for module in model.modules())
    cache = make_cache(layers, num_blocks=sum(TEXT_LENS), block_size=4, kernels=CpuKernels())
    errors = relative_errors(HookedForward(model, layer_places(layers)), cache, texts, expected)
    assert float(errors.max()) < 1e-5
    undo()
    assert {name: module for name, module in model.named_modules() if type(module) is torch.nn.Linear} == linears


@pytest.mark.parametrize("family", ["Llama", "Mistral"])
def test_the_flat_decoder_computes_what_the_model_computes(family: str) -> None:
    model = make_model(SERVED[family]())
    texts = some_texts()
    expected = compatibility.plain_logits(model, texts)
    layers = install_hook(model)
    cache = make_cache(layers, num_blocks=sum(TEXT_LENS), block_size=4, kernels=CpuKernels())
    assert flat_decoder.fits(model)
    errors = relative_errors(flat_decoder.FlatDecoder(model), cache, texts, expected)
    assert float(errors.max()) < 1e-5


@pytest.mark.parametrize("family", sorted({*SERVED, *REFUSED} - {"Llama", "Mistral"}))
def test_no_other_family_is_taken_for_a_llama(family: str) -> None:
    assert not flat_decoder.fits(make_model({**SERVED, **REFUSED}[family]()))


@pytest.mark.parametrize("change", [{"attention_bias": True}, {"mlp_bias": True}, {"hidden_act": "gelu"}])
def test_a_llama_with_something_the_flat_decoder_leaves_out_is_not_taken_for_one(change: dict[str, Any]) -> None:
    config = SERVED["Llama"]()
    config.update(change)
    assert not flat_decoder.fits(make_model(config))


@pytest.mark.parametrize("family", REFUSED)
def test_a_family_that_bypasses_the_hook_is_refused_by_name_and_with_the_reason(family: str) -> None:
    model = make_model(REFUSED[family]())
    hook.install(model)
    with pytest.raises(Failure) as refusal:
        compatibility.find_layers(model, 8)
    message = str(refusal.value)
    assert f"{family.lower()} models" in message
    assert "\n" not in message
    assert ("2 of its 4 layers (0, 2)" if family == "Jamba" else "none of its layers") in message


def test_a_model_that_attends_otherwise_than_it_says_is_refused_with_the_size_of_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = make_model(SERVED["Gemma2"]())
    texts = compatibility.sample_texts(VOCABULARY)
    expected = compatibility.plain_logits(model, texts)
    layers = install_hook(model)
    for layer in model.model.layers:
        layer.self_attn.attn_logit_softcapping = None
    cache = make_cache(layers, compatibility.check_blocks(4), 4)
    with pytest.raises(Failure, match=r"differ from the plain model's by \d+\.\d%, more than 0\.1% in float32"):
        compatibility.check_logits(model, HookedForward(model, layer_places(layers)), cache, texts, expected)


def test_attention_without_the_step_context_raises_instead_of_guessing() -> None:
    model = make_model(SERVED["Llama"]())
    hook.install(model)
    with pytest.raises(hook.HookError, match="without the step context"):
        model(input_ids=torch.tensor([[1, 2]]), use_cache=False)
