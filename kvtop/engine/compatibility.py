"""Can this model run on paged KV? Found out when it is loaded, by trying, and said in words when it cannot.

One idea: first a dry run shows which layers call the attention hook and what each stores of a token. Then two short
texts go through the model the way the engine will send them (cut into chunks, mixed in one batch, in scattered blocks,
every unused slot NaN), and the logits must be those of the untouched model. A family is never judged by its name.
"""

from __future__ import annotations

from typing import Any

import torch

from kvtop.engine.hook import CONTEXT_KEYWORD, DryRun
from kvtop.engine.kv_cache import KVCache, LayerShape
from kvtop.engine.plan import Scheduled, StepPlan
from kvtop.engine.requests import Request
from kvtop.engine.runner import Forward
from kvtop.engine.sequences import Sequence
from kvtop.engine.step_inputs import StepTables
from kvtop.engine.tables import BlockTable, blocks_for
from kvtop.failure import Failure, first_line

TOLERANCE = {torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 8e-2}
"""Largest error of a position's logits relative to their size, for the median position: mixtures of experts may send a
single token elsewhere for a rounding error. A wrong mask or position is off by far more."""

_STEPS = (((0, 9), (0, 4)), ((9, 10), (4, 12)), ((10, 19), (12, 13)), ((19, 20), (13, 14)))
"""Of each text, which positions are computed in each step."""
_TEXT_LENS = (20, 14)


def sample_texts(vocab_size: int) -> list[list[int]]:
    """Two token sequences to try a model with."""
    generator = torch.Generator().manual_seed(7)
    return [torch.randint(vocab_size, (length,), generator=generator).tolist() for length in _TEXT_LENS]


@torch.inference_mode()
def plain_logits(model: Any, texts: list[list[int]]) -> list[torch.Tensor]:
    """float32 [length, vocabulary] on the CPU for each text, by the model as transformers runs it."""
    logits = []
    for text in texts:
        output = model(input_ids=torch.tensor([text], device=model.device), use_cache=False)
        logits.append(output.logits[0].float().cpu())
    return logits


@torch.inference_mode()
def find_layers(model: Any, num_tokens: int) -> dict[int, LayerShape]:
    """What each attention layer stores of a token, by ``layer_idx``, from one run of ``num_tokens`` tokens; the hook is
    installed.

    Raises:
        Failure: the model cannot be run with the hook, or not all its layers call it.
    """
    places = torch.arange(num_tokens, device=model.device)[None]
    dry_run = DryRun(places[0])
    try:
        model(
            input_ids=torch.zeros_like(places),
            position_ids=places,
            use_cache=False,
            logits_to_keep=places[0, -1:],
            **{CONTEXT_KEYWORD: dry_run},
        )
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise _refusal(model, f"it cannot be run that way ({first_line(error)})") from error
    count = model.config.get_text_config().num_hidden_layers
    missing = [layer for layer in range(count) if layer not in dry_run.shapes]
    if len(missing) == count:
        raise _refusal(model, "none of its layers calls transformers' attention interface: they attend on their own")
    if missing:
        some = ", ".join(map(str, missing[:4])) + (", …" if len(missing) > 4 else "")
        raise _refusal(
            model, f"{len(missing)} of its {count} layers ({some}) keep a state of another kind, or attend on their own"
        )
    return dict(sorted(dry_run.shapes.items()))


@torch.inference_mode()
def check_logits(
    model: Any, forward: Forward, cache: KVCache, texts: list[list[int]], expected: list[torch.Tensor]
) -> None:
    """Run ``texts`` through ``forward`` on ``cache``, which is used for nothing else, and compare with ``expected``.

    Raises:
        Failure: the logits are not finite, or differ.
    """
    for pool in cache.layers:
        pool.fill(torch.nan)
    tables = StepTables(cache.block_size, model.device)
    sequences = _scattered_sequences(texts, cache.block_size)
    errors = []
    for step, spans in enumerate(_STEPS):
        scheduled = [Scheduled(s, start, stop - start) for s, (start, stop) in zip(sequences, spans, strict=True)]
        inputs = tables.lay_out(StepPlan(step, scheduled))
        logits = forward(inputs, cache, torch.arange(inputs.token_ids.shape[1], device=model.device)).float().cpu()
        starts = inputs.batch.host_query_starts
        for place, entry in enumerate(inputs.entries):
            wanted = expected[entry][slice(*spans[entry])]
            got = logits[starts[place] : starts[place + 1]]
            errors.append((got - wanted).norm(dim=-1) / wanted.norm(dim=-1))
    error = float(torch.cat(errors).nan_to_num(torch.inf).median())
    if not error <= TOLERANCE[model.dtype]:
        raise _refusal(
            model,
            f"its logits then differ from the plain model's by {error:.1%}, more than {TOLERANCE[model.dtype]:.1%} "
            f"in {str(model.dtype).removeprefix('torch.')}: it attends in a way that paged KV does not carry",
        )


def check_blocks(block_size: int) -> int:
    """Blocks that :func:`check_logits` needs."""
    return sum(blocks_for(length, block_size) for length in _TEXT_LENS) + 1


def _scattered_sequences(texts: list[list[int]], block_size: int) -> list[Sequence]:
    """A sequence a text; their blocks alternate and run backwards, block 0 stays unused."""
    sequences = []
    needs = [blocks_for(len(text), block_size) for text in texts]
    order = sorted((logical, text) for text, need in enumerate(needs) for logical in range(need))
    for index, text in enumerate(texts):
        table = BlockTable(block_size)
        table.block_ids = [len(order) - place for place, (_, owner) in enumerate(order) if owner == index]
        request = Request(id=f"check-{index}", prompt_token_ids=text)
        sequences.append(Sequence(index, request, 0, list(text), len(text), table, BlockTable(block_size)))
    return sequences


def _refusal(model: Any, why: str) -> Failure:
    return Failure(
        f"{model.config.model_type} models ({type(model).__name__}) cannot run on paged KV: {why}. Choose a decoder "
        "whose every layer attends through transformers' attention interface, such as Llama, Qwen, Mistral or Gemma"
    )
