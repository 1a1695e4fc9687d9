"""Rules of admission, preemption, reservation and the operator, on the fake runner."""

from __future__ import annotations

import pytest

from kvtop.engine.control import ClearCache, Inject, Preempt, Set, SetPriority
from kvtop.engine.events import (
    Changed,
    Completed,
    Forked,
    Preempted,
    Resumed,
    Waits,
)
from kvtop.engine.requests import Request
from tests.engine.fake_runner import beam_oracle
from tests.engine.harness import Harness, ask, assert_equal_to_oracle


def test_a_swapped_sequence_loses_no_kv() -> None:
    harness = Harness(num_blocks=8, block_size=4, swap_blocks=8)
    request = ask("A", 9, 12)
    harness.add(request)
    for _ in range(4):
        harness.step()
    harness.send(Preempt(seq=1, mode="swap"))
    assert harness.scheduler.kv.swap.num_free == 5
    harness.step()
    (resumed,) = harness.of(Resumed)
    assert resumed.mode == "swap"
    harness.drain()
    assert harness.scheduler.counters.recomputed_tokens == 0
    assert harness.scheduler.counters.swapped_blocks == 3
    assert_equal_to_oracle(harness, request)


def test_a_preemption_that_is_refused_names_the_request() -> None:
    harness = Harness(num_blocks=8, block_size=4, max_num_seqs=1)
    harness.add(ask("A", 9, 12), ask("B", 3, 4))
    harness.step()
    assert "sequence 2 of request 'B' is not running" in harness.send(Preempt(seq=2)).error
    assert "sequence 7 is not running" in harness.send(Preempt(seq=7)).error
    swapped = harness.send(Preempt(seq=1, mode="swap")).error
    assert "request 'A' holds 3 blocks, the swap space has 0 of 0 free; start the engine with --swap-memory" in swapped


def test_a_prompt_for_a_chat_template_that_is_not_there_is_refused() -> None:
    harness = Harness(num_blocks=8, block_size=4)
    reply = harness.send(Inject(requests=[Request(id="A", prompt="1 2", chat=True)]))
    assert reply.error == "request 1 ('A'): chat: numbers have no chat template"
    reply = harness.send(Inject(requests=[ask("A", 4, chat=True)]))
    assert "chat: goes with prompt" in reply.error
    assert not harness.engine.has_work


def test_the_watermark_holds_back_admission_but_not_when_nothing_runs() -> None:
    harness = Harness(num_blocks=8, block_size=4, watermark=0.5, prefix_cache=False)
    harness.add(ask("A", 16, 3), ask("B", 4, 1))
    harness.step()
    waits = harness.of(Waits)[0]
    assert (waits.reason, waits.needed, waits.watermark_blocks) == ("watermark", 1, 4.0)
    harness.drain()
    assert set(harness.ended) == {"A", "B"}


def test_a_sequence_at_the_preemption_bound_is_no_victim_any_more() -> None:
    harness = Harness(num_blocks=6, block_size=2, max_preemptions=2, max_num_seqs=8)
    requests = [ask(f"r{i}", 3, 8) for i in range(5)]
    harness.add(*requests)
    harness.drain()
    assert max(event.preemptions for event in harness.of(Preempted)) <= 2
    assert_equal_to_oracle(harness, *requests)


def test_a_reservation_waits_for_a_hole_although_the_sum_would_do() -> None:
    harness = Harness(num_blocks=8, block_size=4, policy="reserve-prompt-max-tokens", max_num_seqs=8)
    # A (2) B (4) C (2): A and C end first and leave two holes of 2; D needs 3
    harness.add(ask("A", 6, 2), ask("B", 4, 12), ask("C", 5, 2), ask("D", 4, 8))
    for _ in range(3):
        harness.step()
    pool = harness.scheduler.kv.pool
    assert pool.num_free == 4 and pool.largest_hole() == 2
    short, in_pieces = harness.of(Waits)
    assert (short.reason, short.needed, short.free) == ("blocks", 3, 0)
    assert (in_pieces.reason, in_pieces.needed, in_pieces.free) == ("blocks", 3, 4)
    harness.drain()
    assert set(harness.ended) == {"A", "B", "C", "D"}


def test_clearing_the_cache_makes_every_block_free_once_nothing_runs() -> None:
    harness = Harness(num_blocks=8, block_size=4)
    request = ask("A", 9, 6)
    harness.add(request)
    harness.step()
    harness.send(ClearCache())
    harness.drain()
    harness.send(ClearCache())
    assert harness.scheduler.kv.pool.num_free == 8
    assert_equal_to_oracle(harness, request)


def test_a_changed_priority_moves_a_request_in_the_queue() -> None:
    harness = Harness(num_blocks=8, block_size=4, max_num_seqs=1)
    harness.add(ask("A", 4, 4), ask("B", 4, 1), ask("C", 4, 1))
    harness.step()
    harness.send(SetPriority(request_id="C", priority=-1))
    harness.drain()
    assert [event.request_id for event in harness.of(Completed)] == ["A", "C", "B"]


def test_beams_compute_together_although_another_sequence_was_admitted_between_them() -> None:
    harness = Harness(num_blocks=4, block_size=4, prefix_cache=False, max_num_batched_tokens=16)
    beams, between = ask("A", 4, 3, beam_width=2), ask("X", 3, 8)
    harness.add(beams, between, ask("Y", 3, 1))
    harness.step()
    assert [fork.runs_now for fork in harness.of(Forked)] == [False]
    harness.step()
    order = [sequence.request.id for sequence in harness.scheduler.roster.running]
    assert order == ["A", "X", "A"]
    harness.send(Set(name="max_num_batched_tokens", value="2"))
    harness.drain()
    end = harness.ended["A"]
    assert isinstance(end, Completed)
    assert end.answer == beam_oracle(beams, beams.prompt_token_ids or [], 2048)
    assert_equal_to_oracle(harness, between)


@pytest.mark.parametrize("swap_blocks", [0, 4])
def test_preemption_by_swap_can_be_set_only_where_there_is_swap_space(swap_blocks: int) -> None:
    harness = Harness(num_blocks=6, block_size=2, swap_blocks=swap_blocks)
    reply = harness.send(Set(name="preempt", value="swap"))
    if swap_blocks:
        assert not reply.error and harness.scheduler.config.preempt == "swap"
    else:
        assert "this engine has no swap space; start it with --swap-memory" in reply.error
        assert harness.scheduler.config.preempt == "recompute" and not harness.of(Changed)


def test_every_event_names_an_earlier_one_as_its_cause() -> None:
    harness = Harness(num_blocks=6, block_size=2, swap_blocks=4, preempt="swap")
    harness.add(*[ask(f"r{i}", 3 + i, 8, n=1 + i % 2, temperature=1.0, seed=i) for i in range(5)])
    harness.drain()
    assert [event.id for event in harness.events] == list(range(1, len(harness.events) + 1))
    outside = ("commanded", "advanced", "step_timed")
    for event in harness.events:
        assert event.cause < event.id
        assert event.cause or event.__struct_config__.tag in outside, f"{event} has no cause"
