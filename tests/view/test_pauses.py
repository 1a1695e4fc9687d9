"""What the operator paused is nobody's wait: it counts neither as waiting nor as standing still nor as starving."""

from __future__ import annotations

import msgspec
import pytest

from kvtop.engine.control import Pause, Preempt, Resume, Step
from kvtop.view.keyframe import copy_view, dump_view, load_view
from kvtop.view.life import FROZEN
from kvtop.view.pauses import MOST_PAUSES, Pauses
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
    longest = sequence.closed_gap_s
    sequence.last_token_s = engine.view.wall_s - 120
    engine.view.pauses = Pauses()
    engine.view.pauses.note(True, engine.view.wall_s - 120)
    engine.send(Resume())
    engine.run()
    assert sequence.closed_gap_s < longest + 60


def test_one_that_was_preempted_has_waited_as_long_as_it_stood_in_the_queue() -> None:
    made = MadeView()
    sequence = made.sequence(wait="blocks", preemptions=1)
    sequence.life.enter("decode", 1, made.view.wall_s)
    sequence.life.enter("preempted", 2, made.view.wall_s)
    (row,) = request_rows(made.view, made.view.wall_s + 112)
    assert row.waited_s == pytest.approx(112)


STEP_S = 0.5


@pytest.fixture
def stepped(monkeypatch: pytest.MonkeyPatch) -> WatchedEngine:
    """Every step takes half a second. It was paused before anything came, and stands ten seconds between two steps
    that are asked for."""
    engine = WatchedEngine(num_blocks=12, block_size=4, max_num_seqs=2)
    compute = engine.runner.run

    def run(plan):
        engine.clock.now += STEP_S
        return compute(plan)

    monkeypatch.setattr(engine.runner, "run", run)
    engine.send(Pause())
    engine.add(request("req-1", 8, 30), request("req-2", 8, 30))
    return engine


def press_step(engine: WatchedEngine, times: int) -> None:
    for _ in range(times):
        engine.clock.now += 10
        engine.send(Step(steps=1))
        engine.run()


def spans_of(engine: WatchedEngine, name: str) -> list[tuple[str, int, float]]:
    row = row_of(engine, name, engine.clock.now + 10)
    return [(span.phase, span.steps, round(span.seconds, 6)) for span in row.spans]


def test_steps_that_are_run_one_by_one_take_the_time_they_were_computed(stepped: WatchedEngine) -> None:
    press_step(stepped, 4)
    assert spans_of(stepped, "req-1") == [("waits", 1, 0.0), ("prefill", 1, 0.5), ("decode", 2, 1.5)]
    row = row_of(stepped, "req-1", stepped.clock.now + 10)
    assert row.first_token_after_s == pytest.approx(0.5) and row.waited_s == pytest.approx(0.0)
    assert row.longest_gap_s == pytest.approx(0.5)


def test_a_freeze_in_a_stepped_session_is_as_long_as_its_steps(stepped: WatchedEngine) -> None:
    press_step(stepped, 2)
    stepped.send(Preempt(seq=2))
    stepped.send(Step(steps=1))
    assert row_of(stepped, "req-2", stepped.clock.now).frozen_s is not None, "preempted just now: it stands still"
    assert row_of(stepped, "req-1", stepped.clock.now).frozen_s is None, "it never did"
    press_step(stepped, 3)
    frozen = [seconds for phase, _, seconds in spans_of(stepped, "req-2") if phase in FROZEN]
    assert frozen == [0.0, STEP_S], "preempted while it stood, and computed again in the first step after it"
    assert row_of(stepped, "req-2", stepped.clock.now + 10).frozen_s == pytest.approx(STEP_S)


def test_a_run_of_steps_while_paused_counts_whole(stepped: WatchedEngine) -> None:
    press_step(stepped, 1)
    stepped.clock.now += 10
    stepped.send(Step(steps=20, until="completed"))
    for _ in range(12):
        stepped.clock.now += 0.004  # what the engine does between two steps
        stepped.run()
    assert stepped.view.paused
    phase, steps, seconds = spans_of(stepped, "req-1")[-1]
    assert (phase, steps) == ("decode", 11) and seconds == 12 * STEP_S + 11 * 0.004


def test_going_on_with_a_step_at_once_counts_that_step(stepped: WatchedEngine) -> None:
    press_step(stepped, 2)
    stepped.clock.now += 10
    stepped.engine.apply(Resume())  # its event travels with the step's
    stepped.run()
    assert spans_of(stepped, "req-1")[-1] == ("decode", 1, 2 * STEP_S + 10)


def test_a_keyframe_keeps_the_pauses(stepped: WatchedEngine) -> None:
    press_step(stepped, 4)
    whole = spans_of(stepped, "req-1")
    stepped.view = copy_view(stepped.view)
    assert spans_of(stepped, "req-1") == whole


def test_a_keyframe_of_before_pauses_were_told_can_be_read(stepped: WatchedEngine) -> None:
    press_step(stepped, 4)
    told = msgspec.msgpack.decode(dump_view(stepped.view))
    for name in ("pauses", "paused_since", "step_began_s"):
        del told[name]
    view = load_view(msgspec.msgpack.encode(told))
    assert view.pauses.over == [] and view.step == stepped.view.step


def test_pauses_are_bounded_and_the_latest_are_kept() -> None:
    pauses = Pauses()
    pauses.note(True, 0.0)
    for number in range(10 * MOST_PAUSES):
        pauses.step_ran(10.0 * number + 9, 10.0 * number + 10)
    end_s = 100.0 * MOST_PAUSES
    assert len(pauses.over) <= MOST_PAUSES
    assert pauses.outside(end_s - 500, end_s) == pytest.approx(50)
    assert pauses.outside(0.0, end_s) > 0.8 * end_s, "what is forgotten counts as time that ran"
