"""Moving blocks: the order of transfers is kept, however they are grouped."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtop.engine.kv_cache import KVCache, LayerShape, independent_runs, kv_bytes_per_token
from kvtop.engine.plan import Transfer
from kvtop.kernels.dispatch import ReferenceKernels
from kvtop.kernels.paged import LayerPool
from kvtop.kernels.reference import store_kv

POOL, SWAP = 4, 3
SHAPES = [LayerShape(kv_heads=2, key_dim=3, value_dim=5), LayerShape(kv_heads=1, key_dim=4, value_dim=4)]


def small_cache() -> KVCache:
    """Every slot of every block of both spaces holds a number of its own."""
    cache = KVCache(
        SHAPES,
        num_blocks=POOL,
        block_size=2,
        swap_blocks=SWAP,
        dtype=torch.float32,
        device=torch.device("cpu"),
        kernels=ReferenceKernels(),
    )
    for number, pool in enumerate([*cache.layers, *cache.swap]):
        for part, offset in ((pool.key, 0), (pool.value, 500)):
            part.copy_(torch.arange(part.numel()).view(part.shape) + 1000 * number + offset)
    return cache


def transfers() -> st.SearchStrategy[list[Transfer]]:
    pool, swap = st.integers(0, POOL - 1), st.integers(0, SWAP - 1)
    one = st.one_of(
        st.builds(Transfer, st.just("copy"), pool, pool),
        st.builds(Transfer, st.just("swap_out"), pool, swap),
        st.builds(Transfer, st.just("swap_in"), swap, pool),
    )
    return st.lists(one, max_size=12)


@given(transfers())
@settings(max_examples=200, deadline=None)
def test_transfers_leave_what_doing_them_one_by_one_leaves(moves: list[Transfer]) -> None:
    cache, expected = small_cache(), small_cache()
    cache.move(moves)
    for move in moves:
        for layer, swap in zip(expected.layers, expected.swap, strict=True):
            source = swap if move.kind == "swap_in" else layer
            target = swap if move.kind == "swap_out" else layer
            target.key[move.dst] = source.key[move.src].clone()
            target.value[move.dst] = source.value[move.src].clone()
    for got, wanted in zip([*cache.layers, *cache.swap], [*expected.layers, *expected.swap], strict=True):
        assert torch.equal(got.key, wanted.key)
        assert torch.equal(got.value, wanted.value)


def test_transfers_that_do_not_touch_one_another_go_together() -> None:
    out = [Transfer("swap_out", block, block) for block in range(3)]
    copies = [Transfer("copy", 0, 1), Transfer("copy", 0, 2), Transfer("copy", 2, 3)]
    assert [(kind, len(pairs)) for kind, pairs in independent_runs(out + copies)] == [
        ("swap_out", 3),
        ("copy", 2),
        ("copy", 1),
    ]


@pytest.mark.parametrize("head_major", [False, True])
def test_a_pools_slots_follow_one_another_whichever_way_it_lies(head_major: bool) -> None:
    pool = LayerPool.allocate(4, 2, 3, 5, 7, dtype=torch.float32, device=torch.device("cpu"), head_major=head_major)
    assert pool.key.shape == (4, 2, 3, 5)
    assert pool.value.shape == (4, 2, 3, 7)
    slots = torch.tensor([7, 0, 3])
    key, value = torch.randn(3, 3, 5), torch.randn(3, 3, 7)
    store_kv(key, value, pool.key, pool.value, slots)
    for row, slot in enumerate(slots.tolist()):
        assert torch.equal(pool.key[slot // 2, slot % 2], key[row])
        assert torch.equal(pool.value[slot // 2, slot % 2], value[row])
    assert float(pool.key.abs().sum()) == pytest.approx(float(key.abs().sum()))


def test_bytes_a_token_sum_over_layers_of_different_shape() -> None:
    assert kv_bytes_per_token(SHAPES, torch.bfloat16) == 2 * (2 * (3 + 5) + 1 * (4 + 4))
    smollm2 = [LayerShape(kv_heads=3, key_dim=64, value_dim=64)] * 30
    assert kv_bytes_per_token(smollm2, torch.bfloat16) == 23_040
