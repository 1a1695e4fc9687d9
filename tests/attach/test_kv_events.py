"""Rows 7 to 13 of the attach cases: KV events, in order, without ghosts, and never more than they tell."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from kvtop.attach.kv_events import AllBlocksCleared, BadBatch, BlockRemoved, BlockStored, KvDecoder
from kvtop.attach.kv_sources import KvSource, NoSources, reachable, silence_hint, vllm_sources
from kvtop.attach.kv_stream import KvStream, Ordered, Restarted, Step
from kvtop.attach.kv_watch import KvWatch
from kvtop.attach.server import Scrape, ServerWatch
from kvtop.attach.targets import parse_target
from kvtop.view.residency import Residency, Scope, Tier, disagreement
from tests.attach.fake_server import FakeEvents, FakeHttp, fake_events, fake_http
from tests.attach.recorded import SCENARIOS, messages, pages, truth

HERE = parse_target("127.0.0.1:1")
ROOT = Scope(0, 0)
pack = msgspec.msgpack.encode


def stored(hashes: list[int], parent: int | None = None, **more: Any) -> dict[str, Any]:
    fields = {"token_ids": [1] * 16 * len(hashes), "block_size": 16, "lora_id": None, "medium": "GPU"}
    return {"type": "BlockStored", "block_hashes": hashes, "parent_block_hash": parent, **fields, **more}


def removed(hashes: list[int], **more: Any) -> dict[str, Any]:
    return {"type": "BlockRemoved", "block_hashes": hashes, "medium": "GPU", **more}


CLEARED = {"type": "AllBlocksCleared"}


def batch(*events: Any, rank: int | None = 0) -> bytes:
    return pack([1.5, list(events), rank])


def applied(*payloads: bytes) -> Residency:
    residency, decoder = Residency(), KvDecoder()
    for payload in payloads:
        decoded = decoder.decode(payload)
        for event in decoded.events:
            residency.apply(decoded.rank or 0, event)
    return residency


def resident(residency: Residency) -> set[Any]:
    return {content for tier in residency.tiers.values() for content in tier.copies}


# --- decoding ---------------------------------------------------------------------------------------------------------


def test_old_arrays_and_new_maps_decode_to_the_same_events() -> None:
    maps = KvDecoder().decode(batch(stored([7, 8], 6), removed([7]), CLEARED))
    arrays = KvDecoder().decode(
        batch(["BlockStored", [7, 8], 6, [1] * 32, 16, None, "GPU"], ["BlockRemoved", [7], "GPU"], ["AllBlocksCleared"])
    )
    assert maps.events == arrays.events
    assert [type(event) for event in maps.events] == [BlockStored, BlockRemoved, AllBlocksCleared]


def test_the_oldest_arrays_without_a_medium_are_on_the_gpu() -> None:
    residency = applied(batch(["BlockStored", [7], None, [1] * 16, 16, None], rank=None))
    assert list(residency.tiers) == [Tier(0, "GPU", 0)]


def test_hashes_may_be_32_bytes_or_negative() -> None:
    long = bytes(range(32))
    residency = applied(batch(stored([long], None), stored([-5], long)))  # type: ignore[list-item, arg-type]
    assert [(node.hash, node.depth) for node in residency.walk(ROOT)] == [(long, 0), (-5, 1)]


def test_row_13_unknown_kinds_extra_fields_and_broken_events_are_counted_and_skipped() -> None:
    decoder = KvDecoder()
    events = [
        stored([1], brand_new_field={"a": 1}),
        {"type": "BlockPinned", "block_hashes": [1]},
        {"type": "BlockStored", "block_hashes": "oops"},
        ["BlockMoved", 1],
        42,
        removed([9]),
    ]
    decoded = decoder.decode(batch(*events))
    assert [type(event) for event in decoded.events] == [BlockStored, BlockRemoved]
    assert decoded.unknown == {"BlockPinned": 1, "broken BlockStored": 1, "BlockMoved": 1, "without a type": 1}


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"hello", pack({"ts": 1}), pack([1.0]), pack(["x", [], 0])])
def test_row_13_a_payload_that_is_no_batch_is_refused_in_words(payload: bytes) -> None:
    with pytest.raises(BadBatch, match="not a batch of KV events"):
        KvDecoder().decode(payload)


# --- residency --------------------------------------------------------------------------------------------------------


def test_row_9_children_of_a_parent_from_before_we_joined_hang_under_a_placeholder() -> None:
    residency = applied(batch(stored([11, 12], 10)))
    assert [(n.hash, n.depth, n.placeholder, n.at_most) for n in residency.walk(ROOT)] == [
        (10, 0, True, 0),
        (11, 1, False, 1),
        (12, 2, False, 1),
    ]
    filled = applied(batch(stored([11, 12], 10)), batch(stored([10])))
    assert [(n.hash, n.depth, n.placeholder) for n in filled.walk(ROOT)] == [
        (10, 0, False),
        (11, 1, False),
        (12, 2, False),
    ]


def test_a_parent_that_is_removed_before_its_child_becomes_a_placeholder() -> None:
    residency = applied(batch(stored([1, 2]), removed([1])))
    assert [(n.hash, n.placeholder) for n in residency.walk(ROOT)] == [(1, True), (2, False)]
    assert applied(batch(stored([1, 2]), removed([1]), removed([2]))).placeholders(ROOT) == []


def test_row_10_all_blocks_cleared_empties_the_view_of_its_rank_only() -> None:
    residency = applied(batch(stored([1, 2])), batch(stored([3]), rank=1), batch(CLEARED))
    assert resident(residency) == {3}
    assert list(residency.walk(ROOT)) == []
    assert residency.clears == 1


def test_row_10_metrics_that_still_say_held_are_shown_as_a_disagreement() -> None:
    residency = applied(batch(stored([1, 2])), batch(CLEARED))
    assert disagreement(residency, 0, usage=0.0, num_blocks=96) is None
    words = disagreement(residency, 0, usage=0.4, num_blocks=96)
    assert words == "metrics say that 38 blocks are held, events say that nothing is cached"
    assert disagreement(residency, 0, usage=None, num_blocks=96) is None


def test_more_contents_than_the_pool_has_blocks_is_a_disagreement() -> None:
    residency = applied(batch(stored(list(range(1, 11)))))
    assert disagreement(residency, 0, usage=0.1, num_blocks=5) == "events tell of 10 cached blocks, the pool has 4"


def test_row_11_a_removal_on_one_medium_leaves_the_copy_on_another() -> None:
    residency = applied(batch(stored([1]), stored([1], medium="CPU"), removed([1])))
    (node,) = residency.walk(ROOT)
    assert (node.media, node.placeholder) == (("CPU",), False)
    gone = applied(batch(stored([1]), stored([1], medium="CPU"), removed([1]), removed([1], medium="CPU")))
    assert list(gone.walk(ROOT)) == []


def test_row_11_ranks_and_groups_are_kept_apart_too() -> None:
    residency = applied(
        batch(stored([1])), batch(stored([1], group_idx=1)), batch(stored([1]), rank=1), batch(removed([1]))
    )
    assert {tier for tier, view in residency.tiers.items() if view.copies} == {Tier(0, "GPU", 1), Tier(1, "GPU", 0)}


def test_copies_are_bounded_from_both_sides_never_guessed() -> None:
    twice = applied(batch(stored([1]), stored([1])))
    assert (twice.at_least(0), twice.at_most(0)) == (1, 2), "a second copy, or a report of the first"
    one_gone = applied(batch(stored([1]), stored([1]), removed([1])))
    assert (one_gone.at_least(0), one_gone.at_most(0)) == (0, 1), "there was one, or there is one"
    (node,) = one_gone.walk(ROOT)
    assert not node.certain
    assert resident(applied(batch(stored([1]), stored([1]), removed([1, 1])))) == set()


def test_a_removal_of_what_was_never_stored_is_counted() -> None:
    residency = applied(batch(removed([5])))
    assert residency.tiers[Tier(0, "GPU", 0)].unknown_removed == 1


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_at_the_end_of_a_recording_the_truth_lies_within_the_bounds(scenario: str) -> None:
    stream, decoder, residency = KvStream(can_replay=False), KvDecoder(), Residency()
    for message in messages(scenario):
        for step in stream.take_live(message.number, message.payload, message.t):
            if isinstance(step, Restarted):
                residency.forget(0)
            else:
                for event in decoder.decode(step.payload).events:
                    residency.apply(0, event)
    true_blocks = sum(truth(scenario)[-1]["hashed"])
    least, most = residency.at_least(0), residency.at_most(0)
    assert least <= true_blocks <= most
    assert (least, true_blocks, most) == {"shared": (41, 41, 59), "restart": (10, 10, 10), "tight": (85, 89, 89)}[
        scenario
    ]
    assert stream.restarts == (1 if scenario == "restart" else 0)


# --- order ------------------------------------------------------------------------------------------------------------


def numbers(steps: list[Step]) -> list[int]:
    return [step.number for step in steps if isinstance(step, Ordered)]


def test_row_8_a_gap_is_badged_replayed_in_order_and_the_badge_goes() -> None:
    stream = KvStream(can_replay=True)
    assert numbers(stream.take_live(0, b"", 0)) == [0]
    assert stream.take_live(3, b"", 1) == [], "what follows a gap waits"
    assert stream.incomplete_since == 1
    assert stream.ask_replay() == 1
    assert stream.ask_replay() is None, "once a gap"
    assert stream.take_live(4, b"", 2) == []
    assert numbers(stream.take_replayed(1, b"")) == [1]
    assert numbers(stream.take_replayed(2, b"")) == [2, 3, 4]
    assert numbers(stream.take_replayed(3, b"")) == [], "known already"
    assert stream.end_replay() == []
    assert stream.incomplete_since is None
    assert (stream.lost, stream.refilled) == (0, 2)


def test_row_8_what_a_replay_no_longer_has_stays_missing_and_says_since_when() -> None:
    stream = KvStream(can_replay=True)
    stream.take_live(0, b"", 0)
    stream.take_live(9, b"", 1)
    assert numbers(stream.take_replayed(7, b"")) == [7]
    assert numbers(stream.end_replay()) == []  # not asked yet
    assert stream.ask_replay() == 8
    assert numbers(stream.end_replay()) == [9]
    assert stream.incomplete_since == 1
    assert stream.lost == 7
    stream.all_cleared()
    assert stream.incomplete_since is None


def test_row_8_a_replay_that_hangs_is_given_up_in_time() -> None:
    stream = KvStream(can_replay=True)
    stream.take_live(0, b"", 0)
    stream.take_live(2, b"", 10)
    stream.ask_replay()
    assert stream.tick(11) == []
    assert numbers(stream.tick(13.1)) == [2]
    assert stream.incomplete_since == 1


def test_row_8_a_second_gap_behind_the_first_is_asked_for_too() -> None:
    stream = KvStream(can_replay=True)
    stream.take_live(0, b"", 0)
    stream.take_live(2, b"", 1)
    assert stream.ask_replay() == 1
    stream.take_live(4, b"", 2)
    assert numbers(stream.take_replayed(1, b"")) == [1, 2]
    assert stream.incomplete_since == 3
    assert stream.ask_replay() == 3
    assert stream.end_replay() == [], "the end of the first replay, not of the second"
    assert numbers(stream.take_replayed(3, b"")) == [3, 4]
    assert stream.incomplete_since is None


def test_without_a_replay_socket_the_stream_goes_on_and_stays_incomplete() -> None:
    stream = KvStream(can_replay=False)
    assert numbers(stream.take_live(36, b"", 0)) == [36]
    assert stream.incomplete_since == 0


def test_row_7_a_number_that_falls_is_a_restart() -> None:
    stream = KvStream(can_replay=False)
    stream.take_live(0, b"", 0)
    stream.take_live(1, b"", 0)
    first, second = stream.take_live(0, b"", 1)
    assert first == Restarted("its sequence number fell from 1 to 0")
    assert second == Ordered(0, b"")
    assert stream.incomplete_since is None


def test_row_7_a_restart_while_a_gap_is_open_drops_what_was_held_back() -> None:
    stream = KvStream(can_replay=True)
    stream.take_live(0, b"", 0)
    stream.take_live(5, b"old", 0)
    steps = stream.take_live(0, b"new", 1)
    assert [type(step) for step in steps] == [Restarted, Ordered]
    assert not stream.waiting and stream.incomplete_since is None


# --- over real sockets ------------------------------------------------------------------------------------------------


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
