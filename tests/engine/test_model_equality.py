"""On the real model, in fp32: the pool's size, its block size, chunks, preemption and sharing change no token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from transformers import AutoModelForCausalLM

from kvtop.engine.loading import LoadedModel
from kvtop.engine.requests import Request
from kvtop.engine.workload import read_workload
from tests.engine.real_model import Run, assert_equal, load, model_folder, run

FIXTURES = Path(__file__).parent.parent / "fixtures"
AMPLE: dict[str, Any] = {"num_blocks": 1200, "block_size": 16, "prefix_cache": False, "max_num_batched_tokens": 4096}


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    torch.set_num_threads(1)
    return load()


def workload(count: int = 64, max_tokens: int | None = None, **changes: Any) -> list[Request]:
    requests = read_workload(FIXTURES / "workload64.json")[:count]
    for request in requests:
        request.logprobs = 2
        if max_tokens is not None:
            request.max_tokens = max_tokens
    return [msgspec.structs.replace(request, **changes) for request in requests]


# --- a few requests, in every test run ---


def six() -> list[Request]:
    """The six shortest prompts, 32 new tokens each."""
    return sorted(workload(64, 32), key=lambda request: len(request.prompt_token_ids or []))[:6]


@pytest.fixture(scope="module")
def few(loaded: LoadedModel) -> Run:
    return run(loaded, six(), **AMPLE)


@pytest.mark.parametrize(
    "config",
    [
        {"num_blocks": 16, "block_size": 16},
        {"num_blocks": 640, "block_size": 1, "max_num_batched_tokens": 64},
        {"num_blocks": 6, "block_size": 64, "swap_blocks": 6, "preempt": "swap"},
        {"num_blocks": 90, "block_size": 16, "max_num_batched_tokens": 7},
    ],
    ids=["tight, recompute", "block size 1", "tight, swap", "chunks of 7"],
)
def test_six_requests_have_the_same_tokens(loaded: LoadedModel, few: Run, config: dict[str, Any]) -> None:
    outcome = run(loaded, six(), **config)
    assert_equal(few, outcome)
    if "tight" in str(config):
        assert outcome.counters.preemptions


# --- the whole workload, in make test-all ---


@pytest.fixture(scope="module")
def whole(loaded: LoadedModel) -> Run:
    return run(loaded, workload(), **AMPLE)


CONFIGS: dict[str, dict[str, Any]] = {
    "recompute, at least 20 preemptions": {"num_blocks": 120},
    "swap": {"num_blocks": 120, "swap_blocks": 120, "preempt": "swap"},
    "block size 1": {"num_blocks": 16000, "block_size": 1},
    "block size 64": {"num_blocks": 400, "block_size": 64},
    "chunks of 7": {"num_blocks": 1200, "max_num_batched_tokens": 7},
    "chunks of 512": {"num_blocks": 1200, "max_num_batched_tokens": 512},
    "prefix cache, tight, most blocks": {"num_blocks": 150, "victim": "most-blocks", "max_num_batched_tokens": 512},
    "reserve prompt + max_tokens": {"num_blocks": 200, "policy": "reserve-prompt-max-tokens"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_the_whole_workload_has_the_same_tokens(loaded: LoadedModel, whole: Run, name: str) -> None:
    config = CONFIGS[name]
    outcome = run(loaded, workload(), **config)
    ties = assert_equal(whole, outcome)
    print(f"{name}: {outcome.counters.preemptions} preemptions, ties: {ties or 'none'}")
    if config["num_blocks"] == 120:
        assert outcome.counters.preemptions >= 20
    if "tight" in name:
        assert outcome.counters.preemptions
    if "swap" in name:
        assert outcome.counters.swapped_blocks


@pytest.mark.slow
def test_the_first_eight_equal_generate_request_by_request(generator: Any, whole: Run) -> None:
    for request in workload(8):
        prompt = torch.tensor([request.prompt_token_ids])
        with torch.inference_mode():
            made = generator.generate(prompt, max_new_tokens=request.max_tokens, do_sample=False, eos_token_id=None)
        expected = Run({request.id: {0: made[0, prompt.shape[1] :].tolist()}}, whole.margins)
        assert_equal(expected, whole, [request.id])


@pytest.mark.slow
def test_four_samples_with_seeds_equal_four_single_requests_in_a_tight_pool(loaded: LoadedModel) -> None:
    several = workload(8, 48, n=4, temperature=0.8, seed=11)
    tight = run(loaded, several, num_blocks=70, swap_blocks=40, preempt="swap")
    assert tight.counters.preemptions and tight.counters.copy_on_write
    for index in range(4):
        single = run(loaded, workload(8, 48, temperature=0.8, seed=11 + index), **AMPLE)
        for request in several:
            assert tight.tokens[request.id][index] == single.tokens[request.id][0]


PROMPTS = (
    "The capital of France is",
    "Once upon a time there was a small robot who",
    "The three laws of motion say that",
    "To bake good bread you need",
    "In 1969 the first human",
    "Water boils when",
    "A paged KV cache is useful because",
    "The quick brown fox",
    "Roses are red, violets are",
    "My favourite season is autumn because",
)


@pytest.mark.slow
@pytest.mark.parametrize("num_blocks", [400, 26])
def test_beam_search_equals_generate(loaded: LoadedModel, generator: Any, num_blocks: int) -> None:
    prompts = [loaded.codec.encode(text) for text in PROMPTS]
    eos = sorted(loaded.eos_token_ids)
    requests = [
        Request(id=f"p{i}", prompt_token_ids=prompt, max_tokens=24, beam_width=4) for i, prompt in enumerate(prompts)
    ]
    outcome = run(loaded, requests, num_blocks=num_blocks)
    for i, prompt in enumerate(prompts):
        with torch.inference_mode():
            made = generator.generate(
                torch.tensor([prompt]), max_new_tokens=24, num_beams=4, do_sample=False, eos_token_id=eos
            )
        assert outcome.answers[f"p{i}"] == made[0, len(prompt) :].tolist(), PROMPTS[i]


@pytest.fixture(scope="module")
def generator() -> Any:
    """The same weights behind transformers' own attention and cache."""
    return AutoModelForCausalLM.from_pretrained(model_folder(), attn_implementation="eager", dtype=torch.float32).eval()
