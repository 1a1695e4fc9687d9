"""Whatever speaks of the present reads free and cached blocks from the pool, not from the event of the wait."""

from __future__ import annotations

from kvtop.view.describe import describe
from kvtop.view.json_frame import frame_as_json
from kvtop.view.plain_frame import plain_frame
from kvtop.view.sequence_words import waits_briefly, waits_for
from kvtop.view.why import why_sequence
from tests.view.made_view import MadeView


def overtaken() -> MadeView:
    """req-2 began to wait with 6 free; now 4 are cached and none is free."""
    made = MadeView()
    made.sequence(blocks=94)
    made.sequence(wait="blocks")
    made.cache(4)
    made.sequence(blocks=2)
    return made


def test_rows_why_and_frames_tell_what_is_to_be_had_now() -> None:
    made = overtaken()
    head = made.view.sequences[2]
    assert waits_for(made.view, head) == "needs 9 blocks, 0 free, 4 cached"
    assert waits_briefly(made.view, head) == "needs 9, 4 to be had"
    assert "needs 9 blocks, 0 free, 4 cached" in why_sequence(made.view, 2)
    assert "needs 9 blocks, 0 free, 4 cached" in plain_frame(made.view, made.view.wall_s, "running")
    wait = frame_as_json(made.view, made.view.wall_s, "running")["sequences"][1]["wait"]
    assert (wait["free"], wait["cached"]) == (0, 4)


def test_the_line_of_the_event_keeps_the_events_numbers() -> None:
    made = overtaken()
    wait = made.view.sequences[2].wait
    assert wait is not None and "needs 9 blocks, 6 free" in describe(wait, made.view)


def test_a_finding_tells_what_is_free_now() -> None:
    made = overtaken()
    made.run(31)
    starved = next(finding for finding in made.log.standing if finding.key == "starved")
    assert "needs 9 blocks, 0 free, 4 cached" in starved.case.evidence


def test_room_that_came_since_is_called_room_and_not_pieces() -> None:
    made = overtaken()
    made.drop(made.view.sequences[1])
    head = made.view.sequences[2]
    assert waits_for(made.view, head) == "needs 9, 98 to be had now: the next step looks again"
    assert waits_briefly(made.view, head) == "the next step"


def test_a_reservation_has_room_only_where_it_is_in_one_piece() -> None:
    made = MadeView(policy="reserve-max-model-len")
    first, between, rest = made.sequence(blocks=8), made.sequence(blocks=2), made.sequence(blocks=90)
    head = made.sequence(wait="blocks")
    assert waits_for(made.view, head) == "needs 9 blocks, 0 free"
    made.drop(first)
    assert waits_briefly(made.view, head) == "needs 9, 8 free"
    made.drop(between)
    assert waits_briefly(made.view, head) == "the next step"
    scattered = MadeView(policy="reserve-max-model-len")
    left, _, right = scattered.sequence(blocks=8), scattered.sequence(blocks=2), scattered.sequence(blocks=8)
    scattered.sequence(blocks=82)
    head = scattered.sequence(wait="blocks")
    scattered.drop(left)
    scattered.drop(right)
    assert waits_for(scattered.view, head) == "needs 9 blocks in one piece; 16 free, not in one"
    assert rest.status == "running"


def test_one_behind_the_head_is_behind_it_whatever_it_lacked_when_it_was_the_head() -> None:
    made = overtaken()
    behind = made.sequence(wait="blocks")
    assert waits_for(made.view, behind) == waits_briefly(made.view, behind) == "behind req-2"


def test_a_seat_that_came_free_since_is_told() -> None:
    made = MadeView()
    running = [made.sequence(blocks=10) for _ in range(3)]
    head = made.sequence(wait="seats")
    assert waits_for(made.view, head) == "no seat: 3 run, as many as may"
    made.drop(running[0])
    assert waits_for(made.view, head) == "a seat is free now, 2 run: the next step looks again"
