"""Does preemption, swapping, the block size or the chunk change a token on this card? A small random Llama in float32.

The rules of the pool are checked after every step, and blocks nobody owns hold NaN: the tests' own harness, on a card.
"""

from __future__ import annotations

import torch

from benchmarks.gpu.scale import Scale
from kvtop.engine.loading import LoadedModel
from kvtop.engine.requests import Request
from tests.engine.real_model import assert_equal, run

BLOCK_SIZE = 16


def requests(scale: Scale) -> list[Request]:
    """Prompts of 5 to 60 tokens, 40 tokens each; a dry run takes two short ones."""
    generator = torch.Generator().manual_seed(2)
    small = not scale.workers
    made = []
    for index in range(2 if small else 24):
        length = 5 + index if small else int(torch.randint(5, 60, (1,), generator=generator))
        tokens = torch.randint(3, scale.small_model.vocabulary, (length,), generator=generator).tolist()
        made.append(
            Request(id=str(index), prompt_token_ids=tokens, max_tokens=5 if small else 40, ignore_eos=True, logprobs=2)
        )
    return made


def configurations(scale: Scale) -> dict[str, dict[str, object]]:
    """What must not change a token. The first is the measure of the others."""
    if not scale.workers:
        return {
            "ample": {"num_blocks": 8, "block_size": 4},
            "swap": {"num_blocks": 4, "block_size": 4, "swap_blocks": 4, "preempt": "swap"},
        }
    return {
        "ample": {"num_blocks": 400, "block_size": BLOCK_SIZE, "prefix_cache": False},
        "recompute": {"num_blocks": 40, "block_size": BLOCK_SIZE},
        "swap": {"num_blocks": 40, "block_size": BLOCK_SIZE, "swap_blocks": 80, "preempt": "swap"},
        "blocks of 1": {"num_blocks": 6400, "block_size": 1},
        "blocks of 128": {"num_blocks": 60, "block_size": 128},
        "chunks of 7": {"num_blocks": 400, "block_size": BLOCK_SIZE, "max_num_batched_tokens": 7},
    }


def same_tokens(scale: Scale, loaded: LoadedModel, graphed: LoadedModel) -> list[dict[str, object]]:
    """A row a configuration: preemptions, whether all tokens are those of the ample pool, near-ties that are not. The
    ample pool runs without CUDA graphs, the others with them."""
    asked = requests(scale)
    rows: list[dict[str, object]] = []
    ample = None
    for name, config in configurations(scale).items():
        outcome = run(graphed if ample else loaded, asked, **config)
        ample = ample or outcome
        try:
            ties, equal = assert_equal(ample, outcome), True
        except AssertionError as difference:
            ties, equal = [str(difference)], False
        rows.append(
            {
                "configuration": name,
                "preemptions": outcome.counters.preemptions,
                "swapped_blocks": outcome.counters.swapped_blocks,
                "equal": equal,
                "remarks": ties,
            }
        )
    return rows
