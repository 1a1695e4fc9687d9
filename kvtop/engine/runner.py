"""The real runner: one model, its paged KV, and a sampler, driven by plans.

One idea: a step is transfers, one forward over all scheduled tokens, and draws from the logits of each sequence's
last token. The runner decides nothing and keeps nothing of a sequence but a mirror of its block table. It raises
what the model or the device raises; a step that raised has changed no sequence.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch

from kvtop.engine.hook import CONTEXT_KEYWORD, StepContext
from kvtop.engine.kv_cache import KVCache
from kvtop.engine.plan import StepPlan, StepResult
from kvtop.engine.sampler import Sampler
from kvtop.engine.sequences import Sequence
from kvtop.engine.step_inputs import StepInputs, StepTables


class Forward(Protocol):
    """Runs a step's tokens through a model whose attention reads and writes the paged KV."""

    def __call__(self, inputs: StepInputs, cache: KVCache, logit_rows: torch.Tensor) -> torch.Tensor:
        """The logits [len(logit_rows), vocabulary] of the tokens at places ``logit_rows`` (int64) of the step. Their KV
        is in ``cache`` afterwards."""
        ...


class HookedForward:
    """Any Hugging Face decoder through the attention hook."""

    def __init__(self, model: Any, layer_places: dict[int, int]) -> None:
        """``layer_places`` maps a module's ``layer_idx`` to its place in ``cache.layers``."""
        self._model = model
        self._layer_places = layer_places

    def __call__(self, inputs: StepInputs, cache: KVCache, logit_rows: torch.Tensor) -> torch.Tensor:
        context = StepContext(inputs, cache, self._layer_places)
        output = self._model(
            input_ids=inputs.token_ids,
            position_ids=inputs.positions,
            use_cache=False,
            logits_to_keep=logit_rows,
            **{CONTEXT_KEYWORD: context},
        )
        logits: torch.Tensor = output.logits[0]
        return logits


class ModelRunner:
    """Implements :class:`kvtop.engine.plan.Runner`."""

    def __init__(self, forward: Forward, cache: KVCache, sampler: Sampler, device: torch.device) -> None:
        self.cache = cache
        self._forward = forward
        self._sampler = sampler
        self._device = device
        self._tables = StepTables(cache.block_size, device)

    @torch.inference_mode()
    def run(self, plan: StepPlan) -> StepResult:
        """Compute a step.

        Raises:
            ValueError: the plan schedules tokens its sequences do not have.
            SamplingError: the model's logits are not numbers.
            torch.OutOfMemoryError: the device ran out of memory.
        """
        self.cache.move(plan.transfers)
        if not plan.scheduled:
            return StepResult(sampled=[], computed_tokens=0)
        inputs = self._tables.lay_out(plan)
        last_tokens = inputs.batch.host_query_starts[1:]
        asked: list[int] = []
        rows: list[int] = []
        for place, entry in enumerate(inputs.entries):
            if plan.scheduled[entry].draws or plan.scheduled[entry].candidates:
                asked.append(entry)
                rows.append(last_tokens[place] - 1)
        logits = self._forward(inputs, self.cache, torch.tensor(rows, dtype=torch.int64, device=self._device))
        result = StepResult(sampled=[[] for _ in plan.scheduled], computed_tokens=inputs.token_ids.shape[1])
        if asked:
            drawn = self._sampler.sample(logits, [plan.scheduled[entry] for entry in asked])
            for entry, tokens in zip(asked, drawn, strict=True):
                result.sampled[entry] = tokens
        return result

    def release(self, sequence: Sequence) -> None:
        """Forget a sequence that ended."""
        self._tables.release(sequence)
