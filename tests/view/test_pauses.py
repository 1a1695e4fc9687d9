"""What the operator paused is nobody's wait: it counts neither as waiting nor as standing still nor as starving."""

from __future__ import annotations

import pytest

from kvtop.engine.control import Pause, Preempt, Resume
from kvtop.view.pauses import Pauses
from kvtop.view.request_rows import RequestRow, request_rows
from tests.view.made_view import MadeView
from tests.view.watched_engine import WatchedEngine, request


def test_time_outside_pauses_is_what_is_left_of_a_span() -> None:
    pauses = Pauses()
    for paused, at_s in ((True, 10.0), (True, 12.0), (False, 20.0), (True, 50.0)):
        pauses.note(paused, at_s)
    assert pauses.outside(0.0, 5.0) == 5.0
    assert pauses.outside(0.0, 15.0) == 10.0
    assert pauses.outside(12.0, 30.0) == 10.0
    assert pauses.outside(40.0, 90.0) == 10.0
    assert pauses.outside(60.0, 90.0) == 0.0


def test_a_head_does_not_starve_while_the_engine_is_paused_and_its_time_goes_on_after_it() -> None:
    made = MadeView()
    made.sequence(blocks=94)
    made.sequence(wait="blocks")
    made.run(10)
    made.view.pauses.note(True, made.view.wall_s)
    made.run(120)
    made.view.pauses.note(False, made.view.wall_s)
    made.run(15)
    assert "starved" not in made.standing
    made.run(8)
    starved = next(finding for finding in made.log.standing if finding.key == "starved")
    assert starved.case.evidence.startswith("it has stood there 33 s:")


def paused_for_two_minutes() -> WatchedEngine:
    """req-1 decodes, req-2 was preempted and waits; then all stand still for two minutes, and go on."""
    engine = WatchedEngine(num_blocks=12, block_size=4, max_num_seqs=2)
    engine.add(request("req-1", 8, 30), request("req-2", 8, 30))
    engine.run(4)
    engine.send(Preempt(seq=2))
    engine.send(Pause())
    return engine


def row_of(engine: WatchedEngine, name: str, now_s: float) -> RequestRow:
    return next(row for row in request_rows(engine.view, now_s) if row.name == name)


def test_waits_and_freezes_of_a_request_leave_the_pause_out() -> None:
    engine = paused_for_two_minutes()
    assert engine.view.sequences[2].frozen
    now_s = engine.view.wall_s
    before, after = row_of(engine, "req-2", now_s), row_of(engine, "req-2", now_s + 120)
    assert after.waited_s == pytest.approx(before.waited_s)
    assert after.frozen_s == pytest.approx(before.frozen_s)
    sequence = engine.view.sequences[2]
    assert sequence.frozen_seconds(now_s + 120, engine.view.pauses) == pytest.approx(
        sequence.frozen_seconds(now_s, engine.view.pauses)
    )


def test_a_paused_engine_makes_no_long_pause_between_two_tokens() -> None:
    engine = paused_for_two_minutes()
    assert engine.view.paused
    sequence = engine.view.sequences[1]
    longest = sequence.longest_gap_s
    sequence.last_token_s = engine.view.wall_s - 120
    engine.view.pauses = Pauses()
    engine.view.pauses.note(True, engine.view.wall_s - 120)
    engine.send(Resume())
    engine.run()
    assert sequence.longest_gap_s < longest + 60


def test_one_that_was_preempted_has_waited_as_long_as_it_stood_in_the_queue() -> None:
    made = MadeView()
    sequence = made.sequence(wait="blocks", preemptions=1)
    sequence.life.enter("decode", 1, made.view.wall_s)
    sequence.life.enter("preempted", 2, made.view.wall_s)
    (row,) = request_rows(made.view, made.view.wall_s + 112)
    assert row.waited_s == pytest.approx(112)
