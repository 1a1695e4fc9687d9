from __future__ import annotations

import pytest

from kvtop.engine.control import AnyCommand, BatchMessage, Pause, Reply, Status, TakeSnapshot
from kvtop.engine.events import Batch
from kvtop.failure import Failure
from kvtop.sources.source import Message
from kvtop.sources.watch import watch_until
from kvtop.view.pool_view import PoolView
from tests.sources.traffic import batches


class Told:
    """A source that tells what it is given, a list a poll."""

    def __init__(self, *polls: list[Message]) -> None:
        self.polls = list(polls)
        self.sent: list[AnyCommand] = []

    def start(self) -> None:
        """Nothing to start."""

    def poll(self, max_messages: int = 1000) -> list[Message]:
        return self.polls.pop(0)

    def send(self, command: AnyCommand) -> None:
        self.sent.append(command)

    def restart(self) -> None:
        raise AssertionError

    def close(self) -> None:
        """Nothing to close."""


def told(made: list[Batch]) -> list[Message]:
    return [BatchMessage(batch=batch) for batch in made]


def no_report(detail: str, done: float, total: float) -> None:
    raise AssertionError("nothing loads")


def test_it_stops_at_the_very_batch_and_has_observed_each() -> None:
    made = batches(30)
    seen: list[int] = []
    source = Told([], told(made[:10]), [], told(made[10:]))
    view = watch_until(
        source, [Pause()], lambda view: view.counters.steps >= 20, no_report, lambda view: seen.append(view.number)
    )
    assert view.counters.steps == 20
    assert seen == [batch.number for batch in made if batch.number <= view.number]
    assert source.sent == [Pause(ticket=1)]


def test_a_gap_is_filled_by_a_snapshot_that_is_asked_for_once() -> None:
    made = batches(12)
    source = Told(told(made[:3]), told(made[5:7]), told(made[7:9]), [Status(state="failed", detail="over")])
    with pytest.raises(Failure, match="over"):
        watch_until(source, [], lambda view: view.step > 8, no_report)
    assert source.sent == [TakeSnapshot()]


def test_a_refused_command_and_an_ended_engine_are_failures_in_its_words() -> None:
    for message, words in (
        (Reply(ticket=1, error="request 1: no"), "request 1: no"),
        (Status(state="failed", detail="out of memory", traceback="where"), "out of memory"),
        (Status(state="stopped"), "the engine has stopped"),
    ):
        with pytest.raises(Failure, match=words):
            watch_until(Told([message]), [], lambda view: True, no_report)


def test_what_loads_is_reported() -> None:
    reports: list[tuple[str, float, float]] = []
    source = Told([Status(state="loading", detail="reading", done=1, total=4)], told(batches(1)))
    view = watch_until(source, [], lambda view: True, lambda *report: reports.append(report))
    assert reports == [("reading", 1, 4)]
    assert isinstance(view, PoolView) and view.info is not None
