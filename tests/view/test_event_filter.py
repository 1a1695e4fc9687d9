from __future__ import annotations

import msgspec
import pytest

from kvtop.engine.events import Advanced, AnyEvent, Batch, Finished, Forked, Preempted, Queued
from kvtop.view.event_filter import EventFilter
from tests.sources.traffic import batches


@pytest.fixture(scope="module")
def made() -> list[Batch]:
    return batches(150)


def picked(made: list[Batch], **wanted: object) -> list[AnyEvent]:
    return [event for _, events in EventFilter(**wanted).pick(made) for event in events]  # type: ignore[arg-type]


def test_without_a_wish_every_event_passes_in_order(made: list[Batch]) -> None:
    assert picked(made) == [event for batch in made for event in batch.events]


def test_types_are_told_by_their_tags(made: list[Batch]) -> None:
    found = picked(made, types=frozenset(("preempted", "queued")))
    assert {type(event) for event in found} == {Preempted, Queued}


def test_a_sequence_is_followed_through_every_event_that_names_it(made: list[Batch]) -> None:
    thrown_out = next(event for event in picked(made) if isinstance(event, Preempted) and event.needed_by != event.seq)
    for seq in (thrown_out.seq, thrown_out.needed_by):
        found = picked(made, seq=seq)
        assert thrown_out in found
        for event in found:
            fields = (event.seqs,) if isinstance(event, Advanced) else msgspec.structs.astuple(event)
            assert any(seq == field or (isinstance(field, list) and seq in field) for field in fields)


def test_a_request_is_followed_with_all_its_samples(made: list[Batch]) -> None:
    fork = next(event for event in picked(made) if isinstance(event, Forked))
    found = picked(made, request=fork.request_id)
    assert {fork.seq, fork.parent} <= {getattr(event, "seq", None) for event in found}
    ends = [event for event in found if isinstance(event, Finished)]
    assert ends and all(event.request_id == fork.request_id for event in ends)


def test_a_request_that_began_before_the_first_batch_is_known_if_told(made: list[Batch]) -> None:
    queued = next(event for event in picked(made) if isinstance(event, Queued))
    rest = [Batch(number=b.number, step=b.step, monotonic_s=0, wall_s=0, events=b.events) for b in made[1:]]
    wanted = EventFilter(request=queued.request_id, types=frozenset(("advanced",)))
    assert not any(events for _, events in wanted.pick(rest))
    assert any(events for _, events in wanted.pick(rest, {queued.seq: queued.request_id}))


def test_steps_bound_it_on_both_sides(made: list[Batch]) -> None:
    steps = [batch.step for batch, events in EventFilter(from_step=20, to_step=30).pick(made) if events]
    assert (min(steps), max(steps)) == (20, 30)
