"""A forward of our own for Llama-shaped models on a CPU: one flat loop over extracted weights.

One idea: at these sizes a decode step is a few hundred small operations, and much of it is spent around them. The loop
keeps the tokens of a step as rows of one matrix from the embedding to the logits, joins the projections of q, k and v,
turns all heads at once, and lets oneDNN apply activation, product and residual before rounding. It holds for models
that are exactly norm, attention, norm, gated MLP, without biases; whether a model is one is decided by its class, and
the logits are checked at load as for every model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import embedding, rms_norm

from kvtop.engine.kv_cache import KVCache
from kvtop.engine.step_inputs import StepInputs
from kvtop.kernels.linear import Linear, make_linear
from kvtop.kernels.paged import AttentionRule

CLASSES = ("LlamaForCausalLM", "MistralForCausalLM")


@dataclass(slots=True, frozen=True)
class _Layer:
    before_attention: torch.Tensor
    joined: Linear
    """Rows of q, then k, then v."""
    after_attention: Linear
    before_mlp: torch.Tensor
    gate: Linear
    up: Linear
    down: Linear


def fits(model: Any) -> bool:
    """Whether :class:`FlatDecoder` computes what ``model`` computes."""
    config = model.config
    return (
        type(model).__name__ in CLASSES
        and model.device.type == "cpu"
        and config.hidden_act == "silu"
        and not any(isinstance(module, torch.nn.Linear) and module.bias is not None for module in model.modules())
    )


class FlatDecoder:
    """Implements :class:`kvtop.engine.runner.Forward`. Copies the weights; the model may be dropped afterwards."""

    def __init__(self, model: Any) -> None:
        """``model`` must fit, see :func:`fits`."""
        config = model.config
        attention = model.model.layers[0].self_attn
        self._query_heads: int = config.num_attention_heads
        self._kv_heads: int = config.num_key_value_heads
        self._head_dim: int = attention.head_dim
        self._rule = AttentionRule(attention.scaling, window=getattr(config, "sliding_window", None) or 0)
        self._eps: float = config.rms_norm_eps
        self._rotary = model.model.rotary_emb
        self._embedding: torch.Tensor = model.get_input_embeddings().weight
        self._layers = [_extract(layer) for layer in model.model.layers]
        self._last_norm: torch.Tensor = model.model.norm.weight
        self._head = make_linear(model.get_output_embeddings().weight)

    def __call__(self, inputs: StepInputs, cache: KVCache, logit_rows: torch.Tensor) -> torch.Tensor:
        """The logits [len(logit_rows), vocabulary]; see ``Forward``."""
        attend, store, slots = cache.kernels.begin(inputs.batch), cache.kernels.store, inputs.batch.slots
        queries, kvs, dim, rule = self._query_heads, self._kv_heads, self._head_dim, self._rule
        hidden = embedding(inputs.token_ids[0], self._embedding)
        cos, sin = self._turns(hidden, inputs.positions)
        for place, layer in enumerate(self._layers):
            pool = cache.layer(place)
            heads = layer.joined(self._norm(hidden, layer.before_attention)).view(-1, queries + 2 * kvs, dim)
            swapped = heads.roll(dim // 2, -1)
            heads = heads.mul_(cos).addcmul_(swapped, sin)
            query, key, value = heads.split((queries, kvs, kvs), dim=1)
            store(key, value, pool, slots)
            attended = attend(query, pool, rule).view(-1, queries * dim)
            hidden = layer.after_attention.plus(attended, hidden)
            normed = self._norm(hidden, layer.before_mlp)
            hidden = layer.down.plus(layer.up.times(normed, layer.gate.swish(normed)), hidden)
        return self._head(self._norm(hidden[logit_rows], self._last_norm))

    def _norm(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return rms_norm(hidden, weight.shape, weight, self._eps)

    def _turns(self, hidden: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """cos and sin [tokens, heads, dim] for all heads of the joined projection: the rotation of a half-swapped head,
        x cos + swap(x) sin with the first half of sin negated; the heads of v are turned by nothing."""
        cos, sin = (part[0, :, None] for part in self._rotary(hidden, positions))
        half = self._head_dim // 2
        sin = torch.cat([-sin[..., :half], sin[..., half:]], dim=-1)
        turned = self._query_heads + self._kv_heads
        still = cos.new_zeros(len(cos), self._kv_heads, self._head_dim)
        return (
            torch.cat([cos.expand(-1, turned, -1), still + 1], dim=1),
            torch.cat([sin.expand(-1, turned, -1), still], dim=1),
        )


def _extract(layer: Any) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    joined = torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight])
    return _Layer(
        before_attention=layer.input_layernorm.weight,
        joined=make_linear(joined),
        after_attention=make_linear(attention.o_proj.weight),
        before_mlp=layer.post_attention_layernorm.weight,
        gate=make_linear(mlp.gate_proj.weight),
        up=make_linear(mlp.up_proj.weight),
        down=make_linear(mlp.down_proj.weight),
    )
