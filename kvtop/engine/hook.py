"""The hook through which every Hugging Face decoder reaches the paged KV: one attention function, one step context.

One idea: transformers lets a model's attention be any registered function. Ours gets the new tokens' q, k and v
only, writes k and v into their slots, and attends over the pages. All it knows of the step is one ``StepContext``
passed along with the call; a model that loses it on the way (keyword arguments reach attention unevenly) raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import AttentionInterface

from kvtop.engine.kv_cache import KVCache, LayerShape
from kvtop.engine.step_inputs import StepInputs
from kvtop.kernels.paged import AttentionRule

ATTENTION_NAME = "kvtop"
CONTEXT_KEYWORD = "kvtop_step"
"""The keyword under which the context travels through the model's forward."""


class HookError(RuntimeError):
    """A model calls its attention in a way the hook cannot serve."""


class StepContext:
    """What attention needs to know of one step. Made anew for each."""

    def __init__(self, inputs: StepInputs, cache: KVCache, layer_places: dict[int, int]) -> None:
        """``layer_places`` maps a module's ``layer_idx`` to its place in ``cache.layers``."""
        self.positions = inputs.positions[0]
        """int64 [tokens]"""
        self._slots = inputs.batch.slots
        self._cache = cache
        self._places = layer_places
        self._attend = cache.kernels.begin(inputs.batch)

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rule: AttentionRule
    ) -> torch.Tensor:
        """Store ``key`` and ``value`` [tokens, kv_heads, dim], attend with ``query`` [tokens, query_heads, dim]."""
        pool = self._cache.layer(self._places[layer])
        self._cache.kernels.store(key, value, pool, self._slots)
        return self._attend(query, pool, rule)


class DryRun:
    """Stands in for a StepContext when a model runs for the first time: notes what each layer would store.

    Attention's output is zeros of the right shape, which is enough to reach every layer.
    """

    def __init__(self, positions: torch.Tensor) -> None:
        self.positions = positions
        self.shapes: dict[int, LayerShape] = {}

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rule: AttentionRule
    ) -> torch.Tensor:
        if layer in self.shapes:
            raise HookError(f"layer {layer} attends twice in one forward")
        self.shapes[layer] = LayerShape(key.shape[1], key.shape[2], value.shape[2])
        return query.new_zeros(query.shape[0], query.shape[1], value.shape[2])


def paged_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **keywords: Any,
) -> tuple[torch.Tensor, None]:
    """The registered function: ``query`` [1, query_heads, tokens, dim], ``key`` and ``value`` with KV heads, to
    [1, tokens, query_heads, dim], as transformers expects it.

    Raises:
        HookError: the step context did not arrive, or the layer does not say which it is.
    """
    context: StepContext | DryRun | None = keywords.get(CONTEXT_KEYWORD)
    if context is None:
        raise HookError(f"{type(module).__name__} was called without the step context")
    layer = getattr(module, "layer_idx", None)
    if layer is None:
        raise HookError(f"{type(module).__name__} has no layer_idx")
    if attention_mask is not None:
        raise HookError(f"{type(module).__name__} brought an attention mask of its own")
    rule = _rule(module, layer, query.shape[-1] ** -0.5 if scaling is None else scaling, keywords)
    new_query, new_key, new_value = (states[0].transpose(0, 1) for states in (query, key, value))
    if getattr(module, "attn_temperature_tuning", False) and not module.use_rope:
        new_query = _move_temperature(module, new_query, context.positions)
    return context.attend(layer, new_query, new_key, new_value, rule).unsqueeze(0), None


def _move_temperature(module: Any, query: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Llama 4 scales the queries of its layers without rotary embedding by their position, which it takes to be their
    place in the batch. Undo the one scale and apply the other (Llama4TextAttention.forward of transformers 5)."""

    def scale(places: torch.Tensor) -> torch.Tensor:
        return torch.log1p(torch.floor((places.float() + 1.0) / module.floor_scale)) * module.attn_scale + 1.0

    moved = scale(positions) / scale(torch.arange(len(positions), device=positions.device))
    return (query * moved[:, None, None]).to(query.dtype)


def _rule(module: torch.nn.Module, layer: int, scaling: float, keywords: dict[str, Any]) -> AttentionRule:
    """The layer's rule, from what the module passes and, where it passes nothing, from its configuration."""
    config: Any = module.config
    layer_types = getattr(config, "layer_types", None)
    kind = layer_types[layer] if layer_types else None
    if "sliding_window" in keywords:
        window = keywords["sliding_window"]
    else:
        window = getattr(config, "sliding_window", None) if kind in (None, "sliding_attention") else None
    return AttentionRule(
        scaling=scaling,
        window=window or 0,
        chunk=config.attention_chunk_size if kind == "chunked_attention" else 0,
        softcap=keywords.get("softcap") or 0.0,
        sinks=keywords.get("s_aux"),
    )


def install(model: Any) -> None:
    """Make ``model`` call the hook."""
    function: Callable[..., Any] = paged_attention
    AttentionInterface.register(ATTENTION_NAME, function)
    model.set_attn_implementation(ATTENTION_NAME)
