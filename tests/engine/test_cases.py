"""Faults that paged engines have shipped, each reduced to a small case on the fake runner."""

from __future__ import annotations

import pytest

from kvtop.engine.check import PoolFault, check
from kvtop.engine.control import Abort, Preempt
from kvtop.engine.events import (
    Admitted,
    Advanced,
    Allocated,
    Completed,
    Copied,
    Evicted,
    Finished,
    Forked,
    Hit,
    Preempted,
    Rejected,
    Shared,
    SwappedIn,
    SwappedOut,
    Waits,
    from_runs,
)
from kvtop.engine.prefix import PrefixIndex, PrefixKey
from kvtop.engine.sequences import Status
from kvtop.engine.settlement import settle
from kvtop.engine.text_reader import StreamReader
from tests.engine.fake_runner import beam_oracle, oracle
from tests.engine.harness import Harness, NumberCodec, ask, assert_equal_to_oracle


def test_01_a_request_larger_than_the_pool_is_rejected_with_the_numbers_and_blocks_nobody() -> None:
    harness = Harness(num_blocks=4, block_size=4)
    small = ask("C", 4)
    harness.add(ask("A", 20), small)
    (rejected,) = harness.of(Rejected)
    assert (rejected.request_id, rejected.needed_blocks, rejected.num_blocks) == ("A", 5, 4)
    assert "20 prompt tokens need 5 blocks" in rejected.reason and "has 4" in rejected.reason
    harness.drain()
    assert_equal_to_oracle(harness, small)


def test_02_a_request_whose_output_cannot_fit_ends_pool_exhausted_and_keeps_its_tokens() -> None:
    harness = Harness(num_blocks=2, block_size=4)
    request = ask("A", 8, 8)
    harness.add(request)
    harness.drain()
    end = harness.ended["A"]
    assert isinstance(end, Completed) and end.reasons == ["pool_exhausted"]
    assert "nobody to preempt" in harness.of(Finished)[0].message
    tokens = harness.outputs["A"][0]
    assert tokens == oracle(request, request.prompt_token_ids or [], 2048)[: len(tokens)] and len(tokens) == 1
    assert harness.scheduler.kv.pool.num_active == 0


def test_03_a_reused_block_does_not_answer_for_its_old_content() -> None:
    harness = Harness(num_blocks=2, block_size=4)
    x, y = ask("X", [1, 2, 3, 4, 5], 1), ask("Y", [9, 8, 7, 6, 5], 1)
    for request in (x, y, ask("Y2", [9, 8, 7, 6, 5], 1), ask("X2", [1, 2, 3, 4, 5], 1)):
        harness.add(request)
        harness.drain()
        assert_equal_to_oracle(harness, request)
    x2 = harness.ended["X2"]
    assert isinstance(x2, Completed) and x2.cached_tokens == 0


def test_04_a_fully_cached_prompt_still_computes_a_token() -> None:
    harness = Harness(num_blocks=8, block_size=4)
    first, second = ask("A", 8), ask("B", 8)
    second.prompt_token_ids = first.prompt_token_ids
    harness.add(first)
    harness.drain()
    harness.add(second)
    harness.drain()
    (hit,) = harness.of(Hit)
    assert hit.tokens == 4 and hit.queried == 8
    assert_equal_to_oracle(harness, first, second)


@pytest.mark.parametrize("steps", range(1, 10))
def test_05_a_resumed_sequence_neither_loses_nor_doubles_its_last_token(steps: int) -> None:
    harness = Harness(num_blocks=8, block_size=4)
    request = ask("A", 3, 10)
    harness.add(request)
    for _ in range(steps):
        harness.step()
    before = len(harness.outputs["A"][0])
    harness.send(Preempt(seq=1))
    assert harness.of(Preempted)[0].tokens == 3 + before - 1
    harness.step()
    assert len(harness.outputs["A"][0]) == before + 1
    harness.drain()
    assert_equal_to_oracle(harness, request)


def test_06_two_equal_prompts_in_one_step_leave_no_table_entry_in_the_free_list() -> None:
    harness = Harness(num_blocks=8, block_size=4, max_num_batched_tokens=64)
    prompt = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    twins = ask("A", prompt, 2), ask("B", prompt, 6)
    harness.add(*twins)
    harness.drain()
    filler = ask("F", 20, 4)
    harness.add(filler)
    harness.drain()  # the self-check looks after every step
    assert_equal_to_oracle(harness, *twins, filler)


def test_07_an_abort_between_schedule_and_result_frees_once() -> None:
    harness = Harness(num_blocks=8, block_size=4)
    harness.add(ask("A", 6), ask("B", 6))
    scheduler = harness.scheduler
    plan = scheduler.schedule()
    result = harness.runner.run(plan)
    harness.send(Abort(request_id="A"))
    settle(scheduler, plan, result.sampled, StreamReader(NumberCodec()))
    check(scheduler)
    assert harness.send(Abort(request_id="A")).error
    harness.engine._reader = StreamReader(NumberCodec())
    harness.send(Abort(request_id="B"))
    assert scheduler.kv.pool.num_active == 0
    assert [end.reasons for end in harness.of(Completed)] == [["abort"], ["abort"]]


def test_08_an_evicted_block_leaves_the_index() -> None:
    harness = Harness(num_blocks=2, block_size=4)
    for name, prompt in (("A", [1, 2, 3, 4, 5]), ("B", [6, 7, 8, 9, 10])):
        harness.add(ask(name, prompt, 1))
        harness.drain()
    assert harness.of(Evicted)
    assert harness.scheduler.kv.pool.index.get(PrefixKey(None, (1, 2, 3, 4))) is None
    assert harness.scheduler.kv.pool.index.get(PrefixKey(None, (6, 7, 8, 9))) is not None


def test_09_beams_that_share_a_parent_leave_no_reference_behind() -> None:
    harness = Harness(num_blocks=12, block_size=4, max_model_len=64)
    request = ask("A", 5, 40, beam_width=4)
    harness.add(request)
    harness.drain()
    assert all(block.ref_count == 0 for block in harness.scheduler.kv.pool.blocks)
    end = harness.ended["A"]
    assert isinstance(end, Completed)
    if end.reasons == ["length"]:
        assert end.answer == beam_oracle(request, request.prompt_token_ids or [], 64)


def test_10_the_first_writer_into_a_shared_block_copies_it_and_the_last_holder_does_not() -> None:
    harness = Harness(num_blocks=8, block_size=4)
    request = ask("A", 6, 6, n=2, temperature=1.0, seed=3)
    harness.add(request)
    harness.step()
    (shared,) = harness.of(Shared)
    last = from_runs(shared.runs)[-1]
    assert harness.scheduler.kv.pool.ref_count(last) == 2 and not harness.of(Copied)
    harness.step()
    (copied,) = harness.of(Copied)
    assert (copied.src, copied.tokens, copied.logical) == (last, 2, 1)
    tables = [sequence.table.block_ids for sequence in harness.scheduler.roster.running]
    assert tables[0][0] == tables[1][0] and tables[0][1] != tables[1][1]
    harness.drain()
    assert len(harness.of(Copied)) == 1
    assert_equal_to_oracle(harness, request)


def test_11_swapped_out_sequences_come_back_before_new_ones_are_admitted() -> None:
    harness = Harness(num_blocks=16, block_size=4, swap_blocks=8, preempt="swap", max_num_seqs=32)
    requests = [ask(f"r{i}", 5, 12, n=2, temperature=1.0, seed=i) for i in range(20)]
    harness.add(*requests)
    out: set[int] = set()
    for _ in range(2000):
        if not harness.engine.has_work:
            break
        for event in harness.step():
            match event:
                case SwappedOut():
                    out.add(event.seq)
                case SwappedIn():
                    out.discard(event.seq)
                case Admitted():
                    assert not out, f"sequence {event.seq} was admitted while {out} wait in the swap space"
    assert not harness.engine.has_work and harness.of(SwappedOut)
    assert_equal_to_oracle(harness, *requests)


def test_12_a_victim_that_was_scheduled_in_this_step_leaves_it_and_gives_its_tokens_back() -> None:
    harness = Harness(num_blocks=6, block_size=4, victim="lowest-priority", max_num_batched_tokens=64)
    low, high = ask("low", 10, 12, priority=5), ask("high", 12, 12, priority=0)
    harness.add(low)
    harness.step()
    harness.add(high)
    harness.step()
    while not harness.of(Preempted):
        harness.step()
    (preempted,) = harness.of(Preempted)
    assert preempted.seq == 1 and preempted.rule == "lowest-priority" and preempted.needed_by == 2
    advanced = harness.of(Advanced)[-1]
    assert advanced.seqs == [2]
    assert harness.scheduler._budget == 64 - 1, "the victim's token was given back"
    harness.drain()
    assert_equal_to_oracle(harness, low, high)


def test_13_priority_does_not_take_a_seat_and_the_event_says_seats() -> None:
    harness = Harness(num_blocks=16, block_size=4, max_num_seqs=1)
    low, high = ask("low", 4, 8, priority=5), ask("high", 4, 2, priority=0)
    harness.add(low)
    harness.step()
    harness.add(high)
    harness.step()
    (waits,) = harness.of(Waits)
    assert (waits.seq, waits.reason, waits.running) == (2, "seats", 1)
    harness.drain()
    assert not harness.of(Preempted)
    assert [event.request_id for event in harness.of(Completed)] == ["low", "high"]


def test_14_recompute_is_not_a_prefix_hit() -> None:
    harness = Harness(num_blocks=8, block_size=4)
    request = ask("A", 9, 8)
    harness.add(request)
    harness.step()
    harness.send(Preempt(seq=1))
    harness.drain()
    counters = harness.scheduler.counters
    assert (counters.prefix_queried_tokens, counters.prefix_hit_tokens) == (9, 0)
    assert (counters.resumed_queried_tokens, counters.resumed_hit_tokens) == (10, 8)
    assert harness.of(Hit)[0].resumed
    end = harness.ended["A"]
    assert isinstance(end, Completed) and (end.cached_tokens, end.recomputed_tokens) == (0, 1)


def test_15_a_lookup_that_is_retried_counts_once() -> None:
    harness = Harness(num_blocks=4, block_size=4, max_num_seqs=8)
    harness.add(ask("A", 8, 8))
    harness.step()
    harness.add(ask("BB", 9, 1))
    for _ in range(5):
        harness.step()
    assert harness.scheduler.roster.waiting
    harness.drain()
    assert harness.scheduler.counters.prefix_queried_tokens == 17


def test_16_equal_hashes_of_different_content_are_a_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvtop.engine.prefix.digest", lambda *_: 1)
    harness = Harness(num_blocks=16, block_size=4)
    requests = [
        ask("A", [1, 1, 1, 1, 1, 1, 1, 1, 1]),
        ask("B", [2, 2, 2, 2, 1, 1, 1, 1, 1]),
        ask("C", [1, 1, 1, 1, 1, 1, 1, 1, 1], salt="adapter"),
        ask("D", [1, 1, 1, 1, 1, 1, 1, 1, 1]),
    ]
    for request in requests:
        harness.add(request)
        harness.drain()
        assert_equal_to_oracle(harness, request)
    cached = {name: end.cached_tokens for name, end in harness.ended.items() if isinstance(end, Completed)}
    assert cached == {"A": 0, "B": 0, "C": 0, "D": 8}


def test_16_equal_tokens_at_another_depth_are_another_content() -> None:
    index = PrefixIndex()
    root = PrefixKey(None, (1, 1))
    index.add(root, 7)
    assert index.match([PrefixKey(None, (1, 1)), PrefixKey(root, (1, 1))]) == [7]


def test_18_forks_that_the_pool_has_no_room_for_wait_whole() -> None:
    harness = Harness(num_blocks=3, block_size=4, prefix_cache=False)
    request = ask("A", 6, 2, n=4, temperature=1.0, seed=1)
    harness.add(request)
    harness.step()
    assert [fork.runs_now for fork in harness.of(Forked)] == [True, False, False]
    for sequence in harness.scheduler.roster.waiting:
        assert sequence.status is Status.WAITING and not sequence.table.block_ids and sequence.computed == 0
    harness.drain()
    assert_equal_to_oracle(harness, request)
    assert len(harness.outputs["A"]) == 4


def test_19_the_last_running_request_ends_with_a_reason_and_the_next_one_runs() -> None:
    harness = Harness(num_blocks=3, block_size=4)
    long, following = ask("A", 4, 40), ask("B", 4, 4)
    harness.add(long, following)
    harness.drain()
    end = harness.ended["A"]
    assert isinstance(end, Completed) and end.reasons == ["pool_exhausted"]
    assert_equal_to_oracle(harness, following)


def test_20_a_shared_prefix_is_counted_once() -> None:
    harness = Harness(num_blocks=12, block_size=4)
    prompt = list(range(9))
    harness.add(ask("A", prompt, 1))
    harness.drain()
    harness.add(ask("B", prompt, 3), ask("C", prompt, 3))
    harness.step()
    pool = harness.scheduler.kv.pool
    assert pool.num_free + pool.num_cached + pool.num_active == 12
    assert pool.num_active == 4 and sum(block.ref_count for block in pool.blocks) == 6


def test_21_the_self_check_names_a_block_that_stands_in_two_tables_with_different_content() -> None:
    harness = Harness(num_blocks=8, block_size=4)
    harness.add(ask("A", 6), ask("BB", 6))
    harness.step()
    one, other = harness.scheduler.roster.running
    pool = harness.scheduler.kv.pool
    pool.release([other.table.block_ids[0]])
    other.table.block_ids[0] = one.table.block_ids[0]
    pool.hold(one.table.block_ids[0], other.seq)
    with pytest.raises(PoolFault) as fault:
        check(harness.scheduler)
    assert fault.value.rule == "content"
    assert fault.value.blocks == [one.table.block_ids[0]] and fault.value.sequences == [1, 2]


def test_22_a_prefix_that_was_never_computed_is_not_served() -> None:
    harness = Harness(num_blocks=8, block_size=4)
    prompt = list(range(10))
    harness.add(ask("A", prompt))
    harness.scheduler.schedule()  # blocks are taken, the forward never happens
    harness.send(Abort(request_id="A"))
    again = ask("A2", prompt)
    harness.add(again)
    harness.drain()
    assert not harness.of(Hit)
    assert_equal_to_oracle(harness, again)


def test_23_max_model_len_need_not_be_a_multiple_of_the_block_size() -> None:
    for policy in ("paged", "reserve-max-model-len"):
        harness = Harness(num_blocks=8, block_size=4, max_model_len=10, policy=policy)
        request = ask("A", 5, 100)
        harness.add(request)
        harness.drain()
        assert len(harness.outputs["A"][0]) == 5
        assert max(event.held for event in harness.of(Allocated)) == 3
        assert_equal_to_oracle(harness, request)


def test_24_a_swap_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    harness = Harness(num_blocks=8, block_size=4, swap_blocks=1)
    harness.add(ask("A", 6, 8))
    harness.step()
    before = harness.engine.snapshot().snapshot
    reply = harness.send(Preempt(seq=1, mode="swap"))
    assert reply.error == "request 'A' holds 2 blocks, the swap space has 1 of 1 free"
    after = harness.engine.snapshot().snapshot
    assert before == after


def test_24_a_full_swap_space_falls_back_to_recompute_and_says_so() -> None:
    harness = Harness(num_blocks=6, block_size=4, swap_blocks=1, preempt="swap")
    requests = [ask(f"r{i}", 7, 12) for i in range(3)]
    harness.add(*requests)
    harness.drain()
    assert any(event.swap_full and event.mode == "recompute" for event in harness.of(Preempted))
    assert_equal_to_oracle(harness, *requests)
