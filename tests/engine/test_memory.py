"""Pool sizes in blocks and bytes, and refusals that carry the numbers."""

from __future__ import annotations

import pytest

from kvtop.engine.memory import choose_pool_size, choose_swap_blocks
from kvtop.engine.pool_size import PoolSize
from kvtop.failure import Failure
from kvtop.settings import EngineSettings

SMOLLM2 = 23_040
"""Bytes of KV a token."""
GIB = 1 << 30


def test_a_number_of_blocks_is_taken_as_it_is() -> None:
    assert choose_pool_size(EngineSettings(num_blocks=7), SMOLLM2, GIB, on_cuda=False) == PoolSize(7, 16, SMOLLM2)


def test_kv_memory_is_cut_into_whole_blocks() -> None:
    pool = choose_pool_size(EngineSettings(kv_memory=GIB), SMOLLM2, 2 * GIB, on_cuda=False)
    assert pool.num_blocks == GIB // (16 * SMOLLM2)
    assert pool.pool_bytes <= GIB < pool.pool_bytes + pool.block_bytes


def test_the_default_is_modest_on_a_cpu_and_nearly_everything_on_cuda() -> None:
    settings = EngineSettings()
    assert choose_pool_size(settings, SMOLLM2, 64 * GIB, on_cuda=False).pool_bytes <= GIB // 2
    assert choose_pool_size(settings, SMOLLM2, GIB, on_cuda=False).pool_bytes <= GIB // 8
    assert choose_pool_size(settings, SMOLLM2, 64 * GIB, on_cuda=True).pool_bytes > 57 * GIB


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            EngineSettings(num_blocks=10_000),
            "--num-blocks 10000 takes 3.4 GiB, 1 GiB are free; at most 2,912 blocks fit",
        ),
        (EngineSettings(kv_memory=2 * GIB), "--kv-memory 2 GiB takes 2 GiB, 1 GiB are free"),
        (EngineSettings(kv_memory=1000), "--kv-memory 1000 B holds no block of 16 tokens, which takes 360 KiB"),
    ],
    ids=["too many blocks", "too many bytes", "less than a block"],
)
def test_a_pool_that_cannot_be_is_refused_with_the_numbers(settings: EngineSettings, message: str) -> None:
    with pytest.raises(Failure) as refusal:
        choose_pool_size(settings, SMOLLM2, GIB, on_cuda=False)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_swap_memory_is_cut_into_blocks_and_refused_where_it_does_not_fit() -> None:
    pool = PoolSize(100, 16, SMOLLM2)
    assert choose_swap_blocks(EngineSettings(), pool, on_cuda=False) == 0
    assert choose_swap_blocks(EngineSettings(swap_memory=36 << 20), pool, on_cuda=False) == 102
    with pytest.raises(Failure, match="no memory for the swap space: --swap-memory 1024 TiB"):
        choose_swap_blocks(EngineSettings(swap_memory=1 << 50), pool, on_cuda=True)
