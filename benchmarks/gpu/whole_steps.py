"""Whole decode steps and prefills of a random Llama: our engine beside transformers' ``generate``, same tokens in."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.gpu.scale import Scale
from benchmarks.gpu.timing import seconds_of
from kvtop.engine.config import SchedulerConfig
from kvtop.engine.control import Inject
from kvtop.engine.engine import Engine
from kvtop.engine.loading import LoadedModel
from kvtop.engine.requests import Request
from tests.engine.harness import fake_info

BLOCK_SIZE = 16
BATCHED_TOKENS = 8192


def prompts(scale: Scale, batch: int, length: int) -> torch.Tensor:
    """int64 [batch, length] on the CPU."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(3, scale.model.vocabulary, (batch, length), generator=generator)


@torch.inference_mode()
def by_generate(scale: Scale, model: Any, enough_time: Callable[[], bool]) -> dict[str, object]:
    """Seconds a decode step at each (batch, context), and a prefill, while the model attends as transformers does."""

    def generate(tokens: torch.Tensor, count: int) -> float:
        inputs = tokens.to(model.device)
        options = {"max_new_tokens": count, "min_new_tokens": count, "do_sample": False, "pad_token_id": 0}
        mask = torch.ones_like(inputs)
        return seconds_of(lambda: model.generate(inputs, attention_mask=mask, **options), model.device)

    steps: dict[str, float] = {}
    for batch, context in scale.end_to_end:
        if not enough_time():
            continue
        tokens = prompts(scale, batch, context)
        generate(tokens, 2)
        short = generate(tokens, 2)
        steps[f"{batch} x {context}"] = (generate(tokens, 2 + scale.decode_steps) - short) / scale.decode_steps
    prompt = prompts(scale, 1, scale.prompt_tokens)
    generate(prompt, 1)
    return {"decode_step_s": steps, "prefill_s": generate(prompt, 1)}


def by_engine(scale: Scale, loaded: LoadedModel, enough_time: Callable[[], bool]) -> dict[str, object]:
    """The same of the engine: everything a step does, events and sampling included."""
    steps: dict[str, float] = {}
    for batch, context in scale.end_to_end:
        if enough_time():
            engine = _engine(loaded, batch, context + scale.decode_steps + 8)
            _inject(engine, prompts(scale, batch, context), scale.decode_steps + 4)
            _prefill(engine)
            engine.step()
            steps[f"{batch} x {context}"] = statistics.median(
                seconds_of(engine.step, loaded.parts.device) for _ in range(scale.decode_steps)
            )
            del engine
    prefills = []
    for _ in range(2):
        engine = _engine(loaded, 1, scale.prompt_tokens + 8)
        _inject(engine, prompts(scale, 1, scale.prompt_tokens), 1)
        prefills.append(seconds_of(lambda engine=engine: _prefill(engine), loaded.parts.device))  # type: ignore[misc]
    return {"decode_step_s": steps, "prefill_s": prefills[-1]}


def _engine(loaded: LoadedModel, batch: int, length: int) -> Engine:
    config = SchedulerConfig(
        num_blocks=batch * (-(-length // BLOCK_SIZE)) + 1,
        block_size=BLOCK_SIZE,
        max_num_seqs=batch,
        max_num_batched_tokens=BATCHED_TOKENS,
        max_model_len=length,
        prefix_cache=False,
    )
    runner = loaded.parts.new_runner(config.num_blocks, config.block_size)
    return Engine(fake_info(config), config, runner, loaded.codec)


def _inject(engine: Engine, tokens: torch.Tensor, count: int) -> None:
    requests = [
        Request(id=str(index), prompt_token_ids=row, max_tokens=count, ignore_eos=True)
        for index, row in enumerate(tokens.tolist())
    ]
    error = engine.apply(Inject(requests=requests)).error
    if error:
        raise RuntimeError(error)


def _prefill(engine: Engine) -> None:
    """Step until every prompt is computed."""
    while engine.scheduler.roster.waiting or engine.scheduler.roster.prefilling:
        engine.step()
