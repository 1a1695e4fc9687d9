"""From a model folder and settings to a runner that is ready for its first step.

One idea: everything that can be wrong is found here, before the first request, and is said in one line (``Failure``):
the device, the folder, the tokenizer, the family, the memory. The stages are reported as they begin, because the
screen is already up. Importing this module imports torch and transformers (seconds).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a model is on this machine by now: nothing here asks a server
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # huge pages for weights and pools: fewer misses when gathering

import torch
from transformers.utils import logging as transformers_logging

from kvtop.engine import checkpoint, compatibility, hook
from kvtop.engine.detokenizer import TextCodec
from kvtop.engine.forward_choice import fastest_forward
from kvtop.engine.graph_forward import CudaCapture, GraphForward
from kvtop.engine.kv_cache import KVCache, LayerShape, kv_bytes_per_token
from kvtop.engine.memory import choose_pool_size, choose_swap_blocks, free_bytes
from kvtop.engine.pool_size import PoolSize, format_bytes
from kvtop.engine.runner import Forward, HookedForward, ModelRunner
from kvtop.engine.sampler import Sampler
from kvtop.failure import Failure, first_line
from kvtop.kernels import dispatch
from kvtop.kernels.dispatch import Kernels
from kvtop.models.progress import Report, no_report
from kvtop.settings import EngineSettings

_STAGES = ("reading the tokenizer", "loading the weights", "checking the model", "allocating the KV pool")
_DRY_RUN_TOKENS = 8
"""On a CPU, where a dry run need not show how much memory a full batch takes."""


@dataclass(slots=True, frozen=True)
class LoadedModel:
    """A model ready to run, and what is to be known of it."""

    runner: ModelRunner
    codec: TextCodec
    eos_token_ids: frozenset[int]
    vocab_size: int
    """Token ids run from 0 to below it."""
    name: str
    device: str
    dtype: str
    max_model_len: int
    pool: PoolSize
    swap_blocks: int
    parts: ModelParts

    @property
    def kernel(self) -> str:
        """What attends: the kernels' name."""
        return self.parts.kernels.name


@dataclass(slots=True, frozen=True)
class ModelParts:
    """What a runner is made of, but for its pool."""

    forward: Forward
    layers: list[LayerShape]
    """What each attention layer stores of a token, in the order of a cache's layers."""
    kernels: Kernels
    dtype: torch.dtype
    device: torch.device

    def new_cache(self, num_blocks: int, block_size: int, swap_blocks: int = 0) -> KVCache:
        """Memory for the KV of this model.

        Raises:
            Failure: there is too little.
        """
        try:
            return KVCache(
                self.layers,
                num_blocks=num_blocks,
                block_size=block_size,
                swap_blocks=swap_blocks,
                dtype=self.dtype,
                device=self.device,
                kernels=self.kernels,
            )
        except (MemoryError, RuntimeError) as error:
            wanted = (num_blocks + swap_blocks) * block_size * kv_bytes_per_token(self.layers, self.dtype)
            raise Failure(
                f"no memory for the KV pool: {format_bytes(wanted)} cannot be had ({first_line(error)}); give fewer "
                "blocks"
            ) from error

    def new_runner(self, num_blocks: int, block_size: int, swap_blocks: int = 0) -> ModelRunner:
        """A runner with a pool of its own. Several may share the model; they may not run at the same time."""
        return ModelRunner(self.forward, self.new_cache(num_blocks, block_size, swap_blocks), Sampler(), self.device)


def load_model(folder: Path, settings: EngineSettings, report: Report = no_report) -> LoadedModel:
    """Load the model in ``folder`` (as :func:`kvtop.models.resolve.resolve_model` returns it) and set up its runner.

    ``--dtype auto`` is the checkpoint's own dtype, except float32 for a float16 checkpoint on a CPU, which computes
    float16 slowly.

    Raises:
        Failure: it cannot be done; the message says why and what to do.
    """
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    device = choose_device(settings.device)
    report(_STAGES[0], 0, len(_STAGES))
    config = checkpoint.read_config(folder)
    tokenizer = checkpoint.read_tokenizer(folder)
    max_model_len = checkpoint.choose_max_model_len(config, settings.max_model_len)
    report(_STAGES[1], 1, len(_STAGES))
    model = checkpoint.read_weights(folder, config, settings.dtype, device)
    report(_STAGES[2], 2, len(_STAGES))
    on_cuda = device.type == "cuda"
    texts = compatibility.sample_texts(checkpoint.vocab_size(model))
    expected = compatibility.plain_logits(model, texts)
    hook.install(model)
    layers = compatibility.find_layers(model, settings.max_num_batched_tokens if on_cuda else _DRY_RUN_TOKENS)
    parts = ModelParts(
        forward=HookedForward(model, {layer: place for place, layer in enumerate(layers)}),
        layers=list(layers.values()),
        kernels=dispatch.choose(device, settings.max_num_seqs),
        dtype=model.dtype,
        device=device,
    )
    parts = _with_fastest_forward(parts, model, settings.block_size, texts, expected)
    if dispatch.can_be_captured(parts.kernels):
        graphs = GraphForward(parts.forward, settings.max_num_seqs, max_model_len, device, CudaCapture())
        parts = replace(parts, forward=graphs)
    report(_STAGES[3], 3, len(_STAGES))
    pool = choose_pool_size(settings, kv_bytes_per_token(parts.layers, model.dtype), free_bytes(device), on_cuda)
    swap_blocks = choose_swap_blocks(settings, pool, on_cuda)
    runner = parts.new_runner(pool.num_blocks, pool.block_size, swap_blocks)
    report("ready", len(_STAGES), len(_STAGES))
    return LoadedModel(
        runner=runner,
        codec=TextCodec(tokenizer),
        eos_token_ids=checkpoint.eos_token_ids(model, tokenizer),
        vocab_size=checkpoint.vocab_size(model),
        name=folder.name,
        device=str(device),
        dtype=str(model.dtype).removeprefix("torch."),
        max_model_len=max_model_len,
        pool=pool,
        swap_blocks=swap_blocks,
        parts=parts,
    )


def _with_fastest_forward(
    parts: ModelParts, model: Any, block_size: int, texts: list[list[int]], expected: list[torch.Tensor]
) -> ModelParts:
    """``parts`` with a forward that gives ``expected`` for ``texts`` on a small cache that ends with this call."""
    trial = parts.new_cache(compatibility.check_blocks(block_size), block_size)

    def check(forward: Forward) -> None:
        compatibility.check_logits(model, forward, trial, texts, expected)

    return replace(parts, forward=fastest_forward(model, parts.forward, check))


def choose_device(wanted: str) -> torch.device:
    """``auto`` takes CUDA where there is a GPU.

    Raises:
        Failure: CUDA was asked for and is absent.
    """
    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        built = "sees no GPU" if torch.version.cuda or torch.version.hip else "is built without CUDA"
        raise Failure(f"--device cuda: torch {torch.__version__} {built}; use --device cpu, or auto")
    return torch.device("cuda" if available and wanted != "cpu" else "cpu")
