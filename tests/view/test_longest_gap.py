"""A request's longest pause is the longest its reader saw, the one that goes on included: who stands still longest must
not show the smallest figure."""

from __future__ import annotations

import pytest

from kvtop.engine.control import Abort, Pause, Preempt
from kvtop.view.json_frame import frame_as_json
from kvtop.view.request_rows import request_rows
from tests.view.watched_engine import WatchedEngine, request


@pytest.fixture
def frozen() -> WatchedEngine:
    """req-2 gave tokens, was preempted and has waited for 20 s; req-1 decoded all the time; req-3 never began."""
    engine = WatchedEngine(num_blocks=9, block_size=4, max_num_seqs=2, prefix_cache=False)
    engine.add(request("req-1", 8, 60), request("req-2", 8, 20))
    engine.run(6)
    engine.run_until("preempted")
    engine.add(request("req-3", 8, 8))
    for _ in range(4):
        engine.clock.now += 5
        engine.run()
    assert engine.view.sequences[2].status == "waiting"
    return engine


def gaps(engine: WatchedEngine) -> dict[str, float]:
    return {row.name: row.longest_gap_s for row in request_rows(engine.view, engine.clock.now)}


def test_the_pause_that_goes_on_counts_in_rows_and_json(frozen: WatchedEngine) -> None:
    assert gaps(frozen) == {"req-1": 5.0, "req-2": 20.0, "req-3": 0.0}
    told = frame_as_json(frozen.view, frozen.clock.now, "running")["sequences"]
    assert [sequence["longest_gap_s"] for sequence in told] == [5.0, 20.0, None]


def test_what_the_operator_lets_stand_is_no_pause_of_the_request(frozen: WatchedEngine) -> None:
    frozen.send(Pause())
    frozen.clock.now += 100
    assert gaps(frozen)["req-2"] == 20.0


def test_one_that_ends_while_it_stands_still_keeps_that_pause(frozen: WatchedEngine) -> None:
    frozen.send(Abort(request_id="req-2"))
    frozen.clock.now += 100
    assert gaps(frozen)["req-2"] == 20.0


def test_the_pause_is_closed_by_the_next_token() -> None:
    engine = WatchedEngine(num_blocks=20, block_size=4, max_num_seqs=2)
    engine.add(request("req-1", 8, 30), request("req-2", 8, 30))
    engine.run(4)
    engine.send(Preempt(seq=2))
    engine.clock.now += 7
    engine.run(3)
    engine.clock.now += 2
    assert gaps(engine)["req-2"] == 7.0
