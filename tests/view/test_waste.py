from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtop.view.pool_view import PoolView
from kvtop.view.waste import largest_hole, measure_waste
from tests.view.watched_engine import WatchedEngine, request


def test_nothing_is_known_before_the_first_snapshot() -> None:
    assert measure_waste(PoolView()) is None


def test_an_empty_pool_wastes_an_unknown_share() -> None:
    engine = WatchedEngine(num_blocks=8, block_size=4)
    engine.add(request("huge", 100))
    waste = measure_waste(engine.view)
    assert waste is not None
    assert (waste.total, waste.held, waste.wasted_share) == (32, 0, None)


def test_a_paged_sequence_wastes_the_tail_of_its_last_block_only() -> None:
    engine = WatchedEngine(num_blocks=8, block_size=4, prefix_cache=False)
    engine.add(request("req-1", 9, 5))
    engine.run()
    waste = measure_waste(engine.view)
    assert waste is not None
    assert (waste.held, waste.live, waste.internal, waste.reserved_unfilled, waste.external) == (12, 9, 3, 0, 0)
    assert waste.wasted_share == 0.25
    assert waste.slot_bytes == 16


def test_a_shared_block_counts_once() -> None:
    engine = WatchedEngine(num_blocks=8, block_size=4)
    engine.add(request("req-1", 6, 9, n=2, temperature=1.0, seed=1))
    engine.run()
    assert len(engine.view.with_status("running")) == 2
    waste = measure_waste(engine.view)
    assert waste is not None
    assert (waste.held, waste.live) == (8, 6)


def test_a_reservation_is_unfilled_until_it_ends_and_then_what_was_never_filled_is_internal() -> None:
    engine = WatchedEngine(num_blocks=8, block_size=4, policy="reserve-prompt-max-tokens", prefix_cache=False)
    engine.add(request("req-1", 5, 11, stop_token_ids=list(range(50))))
    engine.run()
    assert engine.view.sequences == {}
    waste = measure_waste(engine.view)
    assert waste is not None
    assert (waste.ended_filled, waste.ended_unfilled) == (5, 11)
    engine.add(request("req-2", 5, 11))
    engine.run(3)
    waste = measure_waste(engine.view)
    assert waste is not None
    assert (waste.held, waste.live, waste.reserved_unfilled, waste.internal) == (16, 7, 9, 0)


@pytest.mark.parametrize(("needed", "external"), [(4, 6), (3, 0), (7, 0)])
def test_external_is_free_memory_that_would_do_together_while_no_hole_does(needed: int, external: int) -> None:
    engine = WatchedEngine(num_blocks=10, block_size=1, policy="reserve-prompt-max-tokens", prefix_cache=False)
    engine.add(request("req-1", 2, 1), request("req-2", 1, 3), request("req-3", 2, 1))
    engine.run()
    assert engine.view.blocks.ref_counts.tolist() == [0, 0, 0, 1, 1, 1, 1, 0, 0, 0]
    engine.add(request("head", needed - 1, 1))
    engine.run()
    waste = measure_waste(engine.view)
    assert waste is not None and waste.external == external


@given(st.lists(st.booleans(), max_size=60))
def test_the_largest_hole_is_the_longest_run_of_free_blocks(free: list[bool]) -> None:
    runs = "".join("x" if block else " " for block in free).split()
    assert largest_hole(np.array(free, np.bool_)) == max(map(len, runs), default=0)
