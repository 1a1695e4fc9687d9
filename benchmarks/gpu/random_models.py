"""Llamas with random weights, made on the card, and the parts that put one on paged KV with the Triton kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, LlamaConfig

from benchmarks.bookkeeping import NoText
from benchmarks.gpu.scale import ModelShape
from kvtop.engine import compatibility, hook
from kvtop.engine.graph_forward import Capture, CudaCapture, GraphForward
from kvtop.engine.kv_cache import kv_bytes_per_token
from kvtop.engine.loading import LoadedModel, ModelParts
from kvtop.engine.pool_size import PoolSize
from kvtop.engine.runner import HookedForward
from kvtop.kernels.dispatch import Kernels

MOST_TOKENS = 40_960
"""max_position_embeddings of every model."""


def make_model(shape: ModelShape, device: torch.device) -> Any:
    """A Llama of ``shape`` that transformers runs with torch's own attention."""
    transformers.logging.set_verbosity_error()
    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=MOST_TOKENS,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    with device:
        model = AutoModelForCausalLM.from_config(config, dtype=shape.dtype, attn_implementation="sdpa")
    return model.eval().requires_grad_(False)


def put_on_pages(model: Any, kernels: Kernels) -> LoadedModel:
    """From now on ``model`` attends through the hook; a pool is made for each run."""
    hook.install(model)
    layers = compatibility.find_layers(model, 8)
    parts = ModelParts(
        forward=HookedForward(model, {layer: place for place, layer in enumerate(layers)}),
        layers=list(layers.values()),
        kernels=kernels,
        dtype=model.dtype,
        device=model.device,
    )
    codec: Any = NoText()
    pool = PoolSize(1, 16, kv_bytes_per_token(parts.layers, parts.dtype))
    return LoadedModel(
        runner=parts.new_runner(pool.num_blocks, pool.block_size),
        codec=codec,
        eos_token_ids=frozenset(),
        vocab_size=model.config.vocab_size,
        name="random Llama",
        device=str(model.device),
        dtype=str(model.dtype).removeprefix("torch."),
        max_model_len=MOST_TOKENS,
        pool=pool,
        swap_blocks=0,
        parts=parts,
    )


def with_graphs(loaded: LoadedModel, max_num_seqs: int) -> tuple[LoadedModel, GraphForward]:
    """The same model with decode batches as CUDA graphs; on a CPU each is computed anew from the same buffers."""
    device = loaded.parts.device
    capture: Capture = CudaCapture() if device.type == "cuda" else lambda compute: compute
    forward = GraphForward(loaded.parts.forward, max_num_seqs, MOST_TOKENS, device, capture)
    return replace(loaded, parts=replace(loaded.parts, forward=forward)), forward


def weight_bytes(model: Any) -> int:
    """What a decode step reads of the weights: all but the input embeddings, of which it reads a row a sequence."""
    embeddings = {id(parameter) for parameter in model.get_input_embeddings().parameters()}
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    return sum(p.numel() * p.element_size() for p in model.parameters() if tied or id(p) not in embeddings)
