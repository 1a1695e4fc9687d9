"""KV events over real sockets: found by a server's address, replayed, cleared, silent. Rows 7, 8, 12 and 13."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from kvtop.attach.kv_sources import KvSource, NoSources, reachable, silence_hint, vllm_sources
from kvtop.attach.kv_watch import KvWatch
from kvtop.attach.server import Scrape, ServerWatch
from kvtop.attach.targets import parse_target
from tests.attach.fake_server import FakeEvents, FakeHttp, fake_events, fake_http
from tests.attach.recorded import SCENARIOS, messages, pages, truth
from tests.attach.test_kv_events import batch, removed, resident, stored

HERE = parse_target("127.0.0.1:1")
pack = msgspec.msgpack.encode


@contextmanager
def listening(events: FakeEvents, http: FakeHttp) -> Iterator[KvWatch]:
    """A watch that found the publisher by the server's address alone, and hears it."""
    http.set_json("/kv_event_sources", {"0": events.source})
    watch = KvWatch(parse_target(http.url))
    watch.start()
    try:
        wait(watch, lambda: bool(watch.listeners))
        settle(watch, events)
        yield watch
    finally:
        watch.close()


def settle(watch: KvWatch, events: FakeEvents) -> None:
    """Publish until something arrives: a new subscription takes its time."""
    end = time.monotonic() + 5
    while watch.listeners[0].stream.received == 0:
        assert time.monotonic() < end
        events.publish(batch(stored([1])))
        time.sleep(0.02)
    wait(watch, lambda: watch.listeners[0].stream.next == events.number)


def wait(watch: KvWatch, holds, timeout_s: float = 5.0) -> None:
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end, "it never came about"
        watch.poll()
        time.sleep(0.005)
    watch.poll()


@pytest.mark.parametrize("old_replay", [False, True])
def test_row_8_a_late_join_and_a_lost_message_are_replayed_over_real_sockets(old_replay: bool) -> None:
    with fake_events(old_replay=old_replay) as events, fake_http() as http:
        events.publish(batch(stored([100])), lost=True)
        with listening(events, http) as watch:
            stream = watch.listeners[0].stream
            assert stream.incomplete_since is None and stream.refilled >= 1, "the late join was filled"
            events.publish(batch(removed([100])), lost=True)
            events.publish(batch(stored([102])))
            wait(watch, lambda: 102 in resident(watch.residency))
            assert 100 not in resident(watch.residency), "the lost removal came by replay, in its place"
            assert stream.incomplete_since is None and stream.lost == 0


def test_row_7_a_restart_clears_the_view_and_says_so_over_real_sockets() -> None:
    with fake_events() as events, fake_http() as http, listening(events, http) as watch:
        events.publish(batch(stored([1, 2, 3])))
        wait(watch, lambda: 3 in resident(watch.residency))
        events.restart()
        events.publish(batch(stored([50])))
        wait(watch, lambda: 50 in resident(watch.residency))
        assert resident(watch.residency) == {50}, "no ghosts of the old life"
        assert "restarted, what was cached before is gone" in watch.notes(ServerWatch(watch.target))[0]


def restarted_metrics() -> ServerWatch:
    """Metrics whose start time changed between two scrapes."""
    metrics = ServerWatch(HERE)
    now_s = time.monotonic()
    for at_s, started in ((now_s - 1, 100.0), (now_s, 200.0)):
        page = f'vllm:num_requests_running{{engine="0"}} 1\nprocess_start_time_seconds {started}\n'
        metrics.take(Scrape(HERE, at_s, at_s, 200, page))
    return metrics


def test_row_7_a_new_start_time_clears_the_view_too() -> None:
    with fake_events() as events, fake_http() as http, listening(events, http) as watch:
        events.restart()
        events.number = 9  # the new life's first numbers were missed, so none falls
        metrics = restarted_metrics()
        watch.follow(metrics)
        wait(watch, lambda: not resident(watch.residency))
        assert "its metrics began anew" in watch.notes(metrics)[0]
        events.publish(batch(stored([5])))
        wait(watch, lambda: resident(watch.residency) == {5})
        watch.follow(metrics)
        watch.poll()
        assert resident(watch.residency) == {5}, "a restart is followed once"


def test_row_7_what_came_after_a_restart_that_numbers_showed_is_not_cleared_again() -> None:
    with fake_events() as events, fake_http() as http, listening(events, http) as watch:
        events.restart()
        events.publish(batch(stored([5])))
        wait(watch, lambda: resident(watch.residency) == {5})
        watch.follow(restarted_metrics())
        time.sleep(0.15)
        watch.poll()
        assert resident(watch.residency) == {5}


def test_row_13_nothing_a_publisher_sends_ends_the_stream() -> None:
    with fake_events() as events, fake_http() as http, listening(events, http) as watch:
        for payload in (b"", b"\xc1\xff", batch({"type": "\x1b[2J"}), pack([1.0, "no list", 0])):
            events.publish(payload)
        events.publish(batch(stored([77])))
        wait(watch, lambda: 77 in resident(watch.residency))
        notes = watch.notes(ServerWatch(watch.target))
        assert "3 messages could not be read" in notes[0]
        assert "\x1b" not in notes[1] and "1 events of kind" in notes[1]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_recording_played_over_real_sockets_gives_the_same_residency(scenario: str) -> None:
    with fake_events() as events, fake_http() as http:
        recorded = messages(scenario)
        with listening(events, http) as watch:
            events.restart()
            events.number = recorded[0].number
            for index, message in enumerate(recorded):
                if index and message.number < recorded[index - 1].number:
                    events.restart()
                events.publish(message.payload, lost=index % 10 == 4)
            events.publish(batch())
            wait(watch, lambda: watch.listeners[0].stream.next == events.number)
            least, most = watch.residency.at_least(0), watch.residency.at_most(0)
            assert least <= sum(truth(scenario)[-1]["hashed"]) <= most


# --- discovery and silence --------------------------------------------------------------------------------------------


def test_publishers_of_all_ranks_are_found_and_wildcards_become_the_host() -> None:
    told = {"enable_kv_cache_events": True, "publisher": "zmq", "topic": "kv"}
    answer = {
        "0": {**told, "endpoint": "tcp://*:5557", "replay_endpoint": "tcp://*:5558"},
        "1": {**told, "endpoint": "tcp://*:5559", "replay_endpoint": None},
    }
    first, second = vllm_sources(answer, parse_target("http://gpu-1:8000"))
    assert (first.rank, first.endpoint, first.replay_endpoint) == (0, "tcp://gpu-1:5557", "tcp://gpu-1:5558")
    assert (second.rank, second.endpoint, second.replay_endpoint) == (1, "tcp://gpu-1:5559", None)
    assert reachable("tcp://10.0.0.7:1", "gpu-1") == "tcp://10.0.0.7:1"


@pytest.mark.parametrize("answer", [{}, {"0": {"enable_kv_cache_events": False, "publisher": "null"}}])
def test_events_that_are_off_are_said_with_what_to_do(answer: dict[str, Any]) -> None:
    with pytest.raises(NoSources, match="start the server with --kv-events-config"):
        vllm_sources(answer, HERE)


@pytest.mark.parametrize("answer", [[], "x", {"0": 5}, {"x": {}}])
def test_an_answer_that_is_no_table_of_ranks_is_refused(answer: Any) -> None:
    with pytest.raises(NoSources):
        vllm_sources(answer, HERE)


def test_row_12_silence_while_tokens_rise_names_the_likely_causes() -> None:
    connects = KvSource(0, "tcp://127.0.0.1:5557", None, "kv", "tcp://127.0.0.1:5557")
    assert silence_hint(connects, silent_s=5, tokens=10_000) is None
    assert silence_hint(connects, silent_s=60, tokens=3) is None, "nothing was computed: nothing to tell"
    hint = silence_hint(connects, silent_s=60, tokens=10_000)
    assert hint is not None and "connect instead of bind; give it tcp://*:5557" in hint and "'kv'" in hint
    binds = silence_hint(KvSource(0, "tcp://h:5557", None, "", "tcp://*:5557"), 60, 10_000)
    assert binds is not None and "bind" not in binds and "firewall" in binds


def test_row_12_the_hint_comes_from_a_server_whose_tokens_rise() -> None:
    clock = [0.0]
    source = KvSource(0, "tcp://127.0.0.1:9", None, "kv", "tcp://127.0.0.1:9")
    watch = KvWatch(HERE, [source], clock=lambda: clock[0])
    watch.start()
    try:
        metrics = ServerWatch(HERE)
        recorded = pages("tight")
        metrics.take(Scrape(HERE, 0, 0, 200, recorded[0].body))
        assert watch.notes(metrics) == []
        clock[0] = 60.0
        metrics.take(Scrape(HERE, 60, 60, 200, recorded[-1].body))
        assert any("no KV event for 60 s" in note for note in watch.notes(metrics))
    finally:
        watch.close()


def test_a_server_that_is_not_there_yet_is_asked_again() -> None:
    watch = KvWatch(HERE)
    watch.start()
    try:
        wait(watch, lambda: "cannot be asked" in watch.no_events)
        assert watch.notes(ServerWatch(HERE)) == [watch.no_events]
    finally:
        watch.close()
