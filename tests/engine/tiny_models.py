"""Random models of many families, small enough to run in milliseconds, with their logits worth comparing."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM

from kvtop.engine import compatibility, hook
from kvtop.engine.kv_cache import KVCache, LayerShape
from kvtop.kernels.dispatch import Kernels, ReferenceKernels

VOCABULARY = 97
WINDOW = 8

transformers.logging.set_verbosity_error()

_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_SIZES_WITH_HEADS = {**_SIZES, "head_dim": 8}
_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
_SPECIAL = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}

SERVED: dict[str, Any] = {
    "Llama": lambda: transformers.LlamaConfig(**_SIZES_WITH_HEADS),
    "Mistral": lambda: transformers.MistralConfig(**_SIZES_WITH_HEADS, sliding_window=WINDOW),
    "Qwen2": lambda: transformers.Qwen2Config(
        **_SIZES, use_sliding_window=True, sliding_window=WINDOW, max_window_layers=2
    ),
    "Qwen3": lambda: transformers.Qwen3Config(**_SIZES_WITH_HEADS),
    "Gemma2": lambda: transformers.Gemma2Config(
        **_SIZES_WITH_HEADS, sliding_window=WINDOW, query_pre_attn_scalar=8, attn_logit_softcapping=2.0
    ),
    "Gemma3": lambda: transformers.Gemma3TextConfig(
        **_SIZES_WITH_HEADS, sliding_window=WINDOW, sliding_window_pattern=2, query_pre_attn_scalar=8
    ),
    "Phi3": lambda: transformers.Phi3Config(**_SIZES, sliding_window=WINDOW),
    "Olmo2": lambda: transformers.Olmo2Config(**_SIZES),
    "GptOss": lambda: transformers.GptOssConfig(**_SIZES_WITH_HEADS, **_EXPERTS, sliding_window=WINDOW),
    "GPT2": lambda: transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=32, n_layer=4, n_head=4, n_positions=128, **_SPECIAL
    ),
    "GPTNeoX": lambda: transformers.GPTNeoXConfig(
        **{key: value for key, value in _SIZES.items() if key != "num_key_value_heads"}
    ),
    "Mixtral": lambda: transformers.MixtralConfig(**_SIZES_WITH_HEADS, **_EXPERTS, sliding_window=WINDOW),
    "Llama4": lambda: transformers.Llama4TextConfig(
        **_SIZES_WITH_HEADS,
        num_local_experts=2,
        num_experts_per_tok=1,
        moe_layers=[1],
        intermediate_size_mlp=48,
        attention_chunk_size=WINDOW,
        floor_scale=4,
        attn_scale=0.5,
    ),
}

REFUSED: dict[str, Any] = {
    "Mamba": lambda: transformers.MambaConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=4, **_SPECIAL
    ),
    "Jamba": lambda: transformers.JambaConfig(
        **_SIZES,
        attn_layer_period=2,
        attn_layer_offset=1,
        expert_layer_period=2,
        num_experts=2,
        mamba_d_state=4,
        mamba_dt_rank=4,
    ),
    "Falcon": lambda: transformers.FalconConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, **_SPECIAL
    ),
    "Bloom": lambda: transformers.BloomConfig(vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4, **_SPECIAL),
    "Mpt": lambda: transformers.MptConfig(vocab_size=VOCABULARY, d_model=32, n_layers=2, n_heads=4, max_seq_len=128),
}


def make_model(config: Any, dtype: torch.dtype = torch.float32) -> Any:
    """A random model with weights large enough that every part of a layer shows in the logits."""
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            parameter.mul_(6)
        elif "sinks" in name:
            parameter.normal_(std=2)
    return model.to(dtype)


def install_hook(model: Any) -> dict[int, LayerShape]:
    """Make ``model`` call the hook; what its layers store."""
    hook.install(model)
    return compatibility.find_layers(model, 8)


def make_cache(
    layers: dict[int, LayerShape],
    num_blocks: int,
    block_size: int,
    swap_blocks: int = 0,
    dtype: torch.dtype = torch.float32,
    kernels: Kernels | None = None,
) -> KVCache:
    """A cache on the CPU whose every slot is NaN."""
    cache = KVCache(
        list(layers.values()),
        num_blocks=num_blocks,
        block_size=block_size,
        swap_blocks=swap_blocks,
        dtype=dtype,
        device=torch.device("cpu"),
        kernels=kernels or ReferenceKernels(),
    )
    for pool in [*cache.layers, *cache.swap]:
        pool.fill(torch.nan)
    return cache


def layer_places(layers: dict[int, LayerShape]) -> dict[int, int]:
    return {layer: place for place, layer in enumerate(layers)}
