from __future__ import annotations

from kvtop.engine.events import Warned
from kvtop.view.event_log import CAPACITY, EventLog


def filled(count: int) -> EventLog:
    """Entries with ids 1, 2, ...; each is caused by the one before; ten a step."""
    log = EventLog()
    for number in range(1, count + 1):
        log.add(number // 10, float(number), Warned(id=number, cause=number - 1, message=""))
    return log


def test_a_reader_gets_what_is_new_and_hears_how_much_was_dropped() -> None:
    log = filled(30)
    new, dropped = log.since(25)
    assert ([entry.event.id for entry in new], dropped) == ([26, 27, 28, 29, 30], 0)
    assert log.since(30) == ([], 0)
    log = filled(CAPACITY + 500)
    new, dropped = log.since(100)
    assert (len(new), dropped) == (CAPACITY, 400)


def test_it_is_bounded_and_keeps_the_latest() -> None:
    log = filled(3 * CAPACITY)
    assert len(log.entries) == CAPACITY
    assert log.entries[-1].event.id == 3 * CAPACITY
    assert log.total == 3 * CAPACITY


def test_an_event_is_found_by_its_id_while_it_is_held() -> None:
    log = filled(CAPACITY + 10)
    found = log.find(500)
    assert found is not None and found.event.id == 500
    assert log.find(3) is None
    assert log.find(0) is None
    assert log.find(10**9) is None


def test_causes_are_read_along_as_far_as_they_are_held() -> None:
    log = filled(CAPACITY + 10)
    chain = log.causes(log.entries[4].event)
    assert [entry.event.id for entry in chain] == [14, 13, 12, 11]


def test_the_entries_of_a_step_come_in_order() -> None:
    log = filled(100)
    assert [entry.event.id for entry in log.of_step(4)] == list(range(40, 50))
    assert log.of_step(99) == []
