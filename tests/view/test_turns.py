"""Who waits, and behind whom, is told alike wherever it is told, and in the order in which the scheduler takes them."""

from __future__ import annotations

import random

from kvtop.engine.control import SetPriority
from kvtop.view.json_frame import frame_as_json
from kvtop.view.sequence_words import waits_briefly, waits_for
from kvtop.view.turns import head_of_queue, reading_order
from kvtop.view.why import why_sequence
from tests.view.made_view import MadeView
from tests.view.watched_engine import WatchedEngine, request


def overtaken() -> WatchedEngine:
    """req-4 was the head of the queue and was told what it lacks; then req-3 was preempted and stands before it."""
    engine = WatchedEngine(num_blocks=12, block_size=4, prefix_cache=False)
    engine.add(*(request(f"req-{i}", 8, 30) for i in range(1, 4)))
    engine.run()
    engine.add(request("req-4", 24, 8), request("req-5", 4, 8))
    engine.run_until("preempted")
    assert engine.view.sequences[4].wait is not None and engine.view.sequences[3].preemptions == 1
    return engine


def test_one_that_was_overtaken_waits_behind_the_head_in_rows_in_w_and_in_json() -> None:
    engine = overtaken()
    view = engine.view
    row = view.sequences[4]
    assert waits_for(view, row) == waits_briefly(view, row) == "behind req-3"
    assert why_sequence(view, 4).startswith("req-4 waits behind C req-3, which waits: needs ")
    told = {s["request_id"]: s["wait"] for s in frame_as_json(view, view.wall_s, "running")["sequences"]}
    assert told["req-3"]["seq"] == 3 and told["req-4"] is told["req-5"] is None


def test_a_head_that_was_not_looked_at_yet_is_the_head_all_the_same() -> None:
    made = MadeView()
    made.sequence(blocks=94)
    preempted = made.sequence(wait="blocks", preemptions=1)
    preempted.wait = None
    behind = made.sequence(wait="blocks")
    assert head_of_queue(made.view) is preempted
    assert waits_for(made.view, preempted) == "its turn comes with the next step"
    assert waits_for(made.view, behind) == "behind req-2"
    assert why_sequence(made.view, 3) == "req-3 waits behind req-2, whose turn comes with the next step"


def test_what_a_server_does_not_tell_is_not_made_up() -> None:
    made = MadeView()
    made.sequence(blocks=94)
    head, behind = made.sequence(wait="blocks"), made.sequence(wait="blocks")
    head.wait = behind.wait = None
    made.run(5)
    assert waits_for(made.view, head) == waits_briefly(made.view, head) == ""
    assert why_sequence(made.view, 2) == "req-2 is the head of the queue; what it waits for is not told"
    assert why_sequence(made.view, 3) == "req-3 waits behind req-2"


def test_preempted_ones_are_read_before_those_that_never_ran() -> None:
    engine = overtaken()
    rows = sorted(engine.view.sequences.values(), key=reading_order)
    assert [row.name for row in rows] == ["req-1", "req-2", "req-3", "req-4", "req-5"]
    assert [row.status for row in rows] == ["running"] * 2 + ["waiting"] * 3


def test_rows_stand_as_the_scheduler_takes_them_whatever_the_priorities_and_samples() -> None:
    engine = WatchedEngine(num_blocks=14, block_size=4, swap_blocks=8, max_num_seqs=3)
    engine.add(*(request(f"req-{i}", 6, 24, n=1 + i % 3, temperature=1.0, seed=i, priority=i % 2) for i in range(8)))
    chance = random.Random(1)
    orders = set()
    for step in range(120):
        engine.run()
        if step % 7 == 0 and engine.scheduler.roster.groups:
            name = chance.choice(list(engine.scheduler.roster.groups))
            engine.send(SetPriority(request_id=name, priority=chance.randrange(3)))
        roster = engine.scheduler.roster
        queue = [sequence.seq for sequence in [*roster.swapped, *roster.waiting]]
        waiting = [row for row in engine.view.sequences.values() if row.status in ("swapped", "waiting")]
        assert [row.seq for row in sorted(waiting, key=reading_order)] == queue
        head = head_of_queue(engine.view)
        assert (head.seq if head else None) == (queue[0] if queue else None)
        orders.add(tuple(queue) == tuple(sorted(queue)))
    assert orders == {True, False}, "not merely by number"
