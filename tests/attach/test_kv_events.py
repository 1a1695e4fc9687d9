"""Rows 7 to 13 of the attach cases: KV events, in order, without ghosts, and never more than they tell."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kvtop.attach.kv_events import AllBlocksCleared, BadBatch, BlockRemoved, BlockStored, KvDecoder
from kvtop.attach.kv_stream import KvStream, Ordered, Restarted, Step
from kvtop.attach.targets import parse_target
from kvtop.view.residency import Residency, Scope, Tier, disagreement
from tests.attach.recorded import SCENARIOS, messages, truth

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
