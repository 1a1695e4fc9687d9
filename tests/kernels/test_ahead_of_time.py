"""What compilers make of the kernels for GPUs that are not here: nothing spilled, loads of 16 bytes, tensor cores.

A Llama-3-8B layer (32 query heads, 8 KV heads of 128, bfloat16, blocks of 16) and its kin, with the tuning that the
GPU would get.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
import triton.backends

from kvtop.kernels.paged import AttentionRule
from kvtop.kernels.triton_copy import copy_blocks
from kvtop.kernels.triton_decode import decode_attention
from kvtop.kernels.triton_prefill import prefill_attention
from kvtop.kernels.triton_splits import SplitWorkspace
from kvtop.kernels.triton_store import store_kv
from kvtop.kernels.triton_tuning import decode_tuning, prefill_tuning
from tests.kernels.ahead_of_time import TARGETS, Compiled, compile_launch, meta, record_launches

SHARED_LIMIT = {"sm_80": 166_912, "sm_90": 232_448, "sm_100": 232_448, "gfx942": 65_536}
"""Bytes of shared memory a program may have."""
NVIDIA = ["sm_80", "sm_90", "sm_100"]
ASYNC_LOAD = r"cp\.async\.c[ag]\.shared\.global"
ASYNC_LOAD_16 = r"cp\.async\.cg\.shared\.global \[[^;]*, 0x10"


@dataclass(frozen=True, slots=True)
class Layer:
    """An attention layer of a model, as the kernels see it."""

    name: str
    key_dim: int = 128
    value_dim: int = 128
    kv_heads: int = 8
    group: int = 4
    block_size: int = 16
    window: int = 0
    chunk: int = 0
    softcap: float = 0.0
    sinks: bool = False
    dtype: torch.dtype = torch.bfloat16

    def rule(self) -> AttentionRule:
        sinks = meta(self.kv_heads * self.group) if self.sinks else None
        return AttentionRule(self.key_dim**-0.5, self.window, self.chunk, self.softcap, sinks)

    def pools(self) -> tuple[torch.Tensor, torch.Tensor]:
        both = meta(1000, self.block_size, self.kv_heads, self.key_dim + self.value_dim, dtype=self.dtype)
        return both[..., : self.key_dim], both[..., self.key_dim :]


LLAMA = Layer("Llama-3-8B")
OTHERS = [
    Layer("Llama-3-8B, blocks of 128", block_size=128),
    Layer("Llama-3-8B in float32", dtype=torch.float32),
    Layer("Llama-3-8B in float16", dtype=torch.float16),
    Layer("SmolLM2-135M", key_dim=64, value_dim=64, kv_heads=3, group=3),
    Layer("Mistral-7B", window=4096),
    Layer("Llama-4", group=5, chunk=8192),
    Layer("gpt-oss", key_dim=64, value_dim=64, group=8, window=128, sinks=True),
    Layer("Gemma-2-9B", key_dim=256, value_dim=256, group=2, window=4096, softcap=50.0),
    Layer("Phi-2, heads of 80", key_dim=80, value_dim=80, kv_heads=32, group=1),
    Layer("Qwen2-7B, groups of 7", kv_heads=4, group=7),
    Layer("DeepSeek, keys of 192", key_dim=192, kv_heads=16, group=1),
]


def decode_and_join(arch: str, layer: Layer) -> list[Compiled]:
    """The decode kernel and the one that joins splits."""
    key_pool, value_pool = layer.pools()
    heads = layer.kv_heads * layer.group
    float32 = torch.float32
    workspace = SplitWorkspace(meta(98, heads, layer.value_dim, dtype=float32), meta(98, heads, 2, dtype=float32), 66)
    tuning = decode_tuning(arch, layer.dtype, max(layer.key_dim, layer.value_dim))
    launches = record_launches(
        lambda: decode_attention(
            meta(32, heads, layer.key_dim, dtype=layer.dtype),
            key_pool,
            value_pool,
            meta(32, 256, dtype=torch.int32),
            meta(32, dtype=torch.int32),
            layer.rule(),
            workspace=workspace,
            tuning=tuning,
        )
    )
    assert len(launches) == 2
    return [compile_launch(arch, launch) for launch in launches]


def prefill(arch: str, layer: Layer) -> Compiled:
    key_pool, value_pool = layer.pools()
    tuning = prefill_tuning(arch, layer.dtype, max(layer.key_dim, layer.value_dim))
    launches = record_launches(
        lambda: prefill_attention(
            meta(2048, layer.kv_heads * layer.group, layer.key_dim, dtype=layer.dtype),
            key_pool,
            value_pool,
            meta(4, 256, dtype=torch.int32),
            meta(5, dtype=torch.int32),
            meta(4, dtype=torch.int32),
            layer.rule(),
            tuning=tuning,
        )
    )
    return compile_launch(arch, launches[0])


def assert_fits(arch: str, compiled: Compiled) -> None:
    assert compiled.spilled == 0
    assert compiled.shared_bytes <= SHARED_LIMIT[arch]


def assert_loads_of_16_bytes(arch: str, compiled: Compiled) -> None:
    if arch in NVIDIA:
        assert compiled.count(ASYNC_LOAD_16) > 0
        assert compiled.count(ASYNC_LOAD_16) == compiled.count(ASYNC_LOAD)
    else:
        assert compiled.count(r"(buffer|global)_load_dwordx4") > 0


def named(layer: Layer) -> str:
    return layer.name


def test_the_installed_triton_compiles_for_nvidia_and_amd():
    assert set(triton.backends.backends) >= {"nvidia", "amd"}


@pytest.mark.parametrize("arch", TARGETS)
def test_decode_fits_and_loads_16_bytes_at_a_time(arch):
    decode, join = decode_and_join(arch, LLAMA)
    assert_fits(arch, decode)
    assert_loads_of_16_bytes(arch, decode)
    assert_fits(arch, join)


@pytest.mark.parametrize("arch", TARGETS)
def test_prefill_fits_and_loads_16_bytes_at_a_time(arch):
    compiled = prefill(arch, LLAMA)
    assert_fits(arch, compiled)
    assert_loads_of_16_bytes(arch, compiled)


def test_decode_keeps_two_tiles_of_keys_and_values_in_flight_on_hopper():
    tuning = decode_tuning("sm_90", torch.bfloat16, 128)
    decode, _ = decode_and_join("sm_90", LLAMA)
    tile_bytes = tuning.tile * 2 * 128 * 2
    assert decode.shared_bytes >= 2 * tile_bytes
    assert tuning.programs_per_sm * decode.shared_bytes <= SHARED_LIMIT["sm_90"]


def test_prefill_multiplies_by_warp_group_on_hopper():
    compiled = prefill("sm_90", LLAMA)
    assert compiled.count(r"wgmma\.mma_async") > 0
    assert compiled.count(r"mma\.sync") == 0


def test_prefill_multiplies_by_tensor_memory_on_blackwell():
    assert prefill("sm_100", LLAMA).count(r"tcgen05\.mma") > 0


@pytest.mark.parametrize("arch", NVIDIA)
def test_store_and_copy_move_16_bytes_at_a_time(arch):
    key_pool, value_pool = LLAMA.pools()
    new = meta(1, 8, 64, 128).transpose(1, 2)[0]
    stores = record_launches(lambda: store_kv(new, new, key_pool, value_pool, meta(64, dtype=torch.int64)))
    both = meta(1000, 16, 8, 256)
    copies = record_launches(lambda: copy_blocks(both, both, meta(5, 2, dtype=torch.int64)))
    for launch in stores + copies:
        compiled = compile_launch(arch, launch)
        assert_fits(arch, compiled)
        assert compiled.count(r"ld\.global\S*\.v4\.b32") > 0
        assert compiled.count(r"st\.global\S*\.v4\.b32") > 0


@pytest.mark.slow
@pytest.mark.parametrize("layer", OTHERS, ids=named)
@pytest.mark.parametrize("arch", TARGETS)
def test_other_layers_fit(arch, layer):
    decode, join = decode_and_join(arch, layer)
    assert_fits(arch, decode)
    assert_loads_of_16_bytes(arch, decode)
    assert_fits(arch, join)
    assert_fits(arch, prefill(arch, layer))
