"""Every rule on views made by hand: it fires, it stays quiet beside its threshold, it resolves, it does not flap."""

from __future__ import annotations

import pytest

from kvtop.engine.events import Cached, Evicted, Preempted
from kvtop.view.finding import Finding
from kvtop.view.judge_memory import blocks_at_end, seats_that_fit, watermark_that_fits
from tests.view.made_view import MadeView


def found(made: MadeView, key: str) -> Finding:
    (finding,) = (finding for finding in made.log.standing if finding.key == key)
    return finding


# --- memory -----------------------------------------------------------------------------------------------------------


def under_pressure() -> MadeView:
    """Ten sequences of 9 blocks each in 100; those that ended had 10."""
    made = MadeView()
    for _ in range(10):
        made.sequence(blocks=9)
    made.ended(tokens=160, times=20)
    return made


def preempt(made: MadeView) -> None:
    totals = made.view.counters
    totals.preemptions += 1
    totals.computed_tokens += 300
    totals.recomputed_tokens += 100
    totals.generated_tokens += 100


def test_steady_preemptions_are_a_problem_told_with_rate_cost_and_settings() -> None:
    made = under_pressure()
    for _ in range(4):
        made.run(5)
        preempt(made)
    made.run(5)
    case = found(made, "admission").case
    assert case.weight == "problem" and case.headline == "admission exceeds memory"
    assert case.evidence == "9.8 preemptions/min over the last 24 s, 50% of prefill is recompute"
    assert "lower max_num_seqs to about 9, or keep a watermark of 5%" in case.advice


def test_a_single_preemption_is_no_finding_and_neither_are_two_in_the_first_seconds() -> None:
    made = under_pressure()
    made.run(30)
    preempt(made)
    made.run(60)
    assert "admission" not in made.standing
    early = under_pressure()
    early.run(1)
    preempt(early)
    preempt(early)
    early.run(10)
    assert "admission" not in early.standing


def test_a_burst_in_one_moment_is_no_steady_rate() -> None:
    made = under_pressure()
    made.run(30)
    for _ in range(5):
        preempt(made)
    made.run(29)
    assert "admission" not in made.standing


def test_many_preemptions_in_a_short_time_are_found_before_a_minute_is_over_wherever_they_begin() -> None:
    for quiet_s in (0, 90):
        made = under_pressure()
        made.run(quiet_s + 1)
        for _ in range(4):
            preempt(made)
            made.run(3)
        assert found(made, "admission").case.headline == "admission exceeds memory"
        made.run(30)
        assert "admission" in made.standing and not made.log.past


def test_three_preemptions_within_a_second_or_two_are_no_rate() -> None:
    made = under_pressure()
    made.run(40)
    for _ in range(3):
        preempt(made)
        made.run(0.5)
    made.run(28)
    assert "admission" not in made.standing


def test_a_rate_that_wavers_around_the_threshold_fires_once_and_calm_resolves_it() -> None:
    made = under_pressure()
    for pause in (15, 15, 40, 25, 50, 20, 45, 30):
        made.run(pause)
        preempt(made)
    assert "admission" in made.standing
    assert not made.log.past
    made.run(80)
    assert "admission" not in made.standing
    assert [past.key for past in made.log.past].count("admission") == 1


def test_swapped_blocks_are_told_as_the_price_where_nothing_is_recomputed() -> None:
    made = under_pressure()

    def swap() -> None:
        made.view.counters.preemptions += 1
        made.view.counters.swapped_blocks += 3

    made.run(20, swap)
    assert found(made, "admission").case.evidence.endswith(", 117 blocks swapped out")


def test_the_suggested_seats_hold_every_sequence_at_its_full_length_and_are_fewer_than_now() -> None:
    made = under_pressure()
    assert blocks_at_end(made.view) == 10
    assert seats_that_fit(made.view) == 9  # 100 blocks would hold ten, but ten is what runs now
    assert watermark_that_fits(made.view) == pytest.approx(0.05)
    made.ended(tokens=160 * 4, times=50)
    assert seats_that_fit(made.view) == 2
    assert watermark_that_fits(made.view) == 0.3


def test_with_no_figure_to_compute_from_the_advice_names_the_settings_only() -> None:
    assert (seats_that_fit(MadeView().view), watermark_that_fits(MadeView().view)) == (None, None)


def test_a_pool_that_stays_full_while_the_head_waits_for_blocks_is_told() -> None:
    made = MadeView()
    made.sequence(blocks=98)
    made.sequence(wait="blocks")
    made.run(4)
    assert "full" not in made.standing
    made.run(3)
    case = found(made, "full").case
    assert case.evidence == "98 of 100 blocks active (98%), 0 cached; 1 wait, the first of them for 9 blocks"
    assert case.seq == 2
    made.drop(made.view.sequences[2])
    made.run(6)
    assert "full" not in made.standing


def test_a_full_pool_without_a_queue_and_a_queue_before_a_pool_with_room_are_quiet() -> None:
    alone = MadeView()
    alone.sequence(blocks=100)
    alone.run(20)
    roomy = MadeView()
    roomy.sequence(blocks=90)
    roomy.sequence(wait="blocks")
    roomy.run(20)
    assert "full" not in alone.standing + roomy.standing


def test_usage_of_100_percent_that_is_mostly_cache_is_called_harmless() -> None:
    made = MadeView()
    made.sequence(blocks=62)
    made.cache(38)
    made.run(6)
    case = found(made, "full-of-cache").case
    assert case.weight == "note" and case.headline == "usage reads 100% and is harmless"
    assert "38 cached blocks (38%)" in case.evidence and "62% now" in case.advice
    made.view.blocks.evict([(62, 20)], made.view.step)
    made.run(6)
    assert "full-of-cache" not in made.standing


def test_usage_of_100_percent_that_is_held_is_not() -> None:
    made = MadeView()
    made.sequence(blocks=90)
    made.cache(10)
    made.run(20)
    assert "full-of-cache" not in made.standing


def test_one_request_with_most_of_the_pool_is_named_while_others_wait() -> None:
    made = MadeView()
    made.sequence(blocks=30, request_id="big")
    made.sequence(blocks=25, request_id="big")
    made.sequence(blocks=10)
    made.run(10)
    assert made.standing == []  # nobody waits
    waiting = made.sequence(wait="blocks")
    made.run(6)
    finding = found(made, "one-holds-most")
    assert finding.case.headline == "big holds most of the pool"
    assert "55 blocks of 100 (55%)" in finding.case.evidence and finding.case.seq == 1
    made.drop(waiting)
    made.run(6)
    assert "one-holds-most" not in made.standing


def swap_victim(made: MadeView, held: int, swap_full: bool) -> None:
    made.tell(
        Preempted(
            id=made.next_id(), seq=1, rule="newest", mode="recompute" if swap_full else "swap", needed_by=2, held=held,
            freed=held, tokens=16 * held, preemptions=1, swap_full=swap_full,
        )
    )  # fmt: skip


def test_a_full_swap_space_is_told_with_the_size_that_would_have_done() -> None:
    made = MadeView(preempt="swap", swap_blocks=10)
    made.view.swap.take([(0, 8)], 0, 1)
    swap_victim(made, 4, swap_full=False)
    made.run(2)
    assert made.standing == []
    swap_victim(made, 6, swap_full=True)
    made.run(1)
    case = found(made, "swap").case
    assert "1 of the last 2 preemptions recompute instead: 8 of 10 swap blocks taken, the largest victim held 6" in (
        case.evidence
    )
    assert "at least 224 KiB" in case.advice  # 14 blocks of 16 tokens of 1 KiB
    made.run(70)
    assert made.standing == []


def test_swap_without_any_swap_space_is_called_that() -> None:
    made = MadeView(preempt="swap")
    swap_victim(made, 6, swap_full=True)
    made.run(1)
    assert found(made, "swap").case.headline == "there is no swap space to swap to"


def test_a_sequence_that_is_thrown_out_again_and_again_is_named_until_it_ends() -> None:
    made = MadeView()
    made.sequence(blocks=2, preemptions=4)
    often = made.sequence(blocks=2, preemptions=5)
    made.run(1)
    finding = found(made, "again")
    assert finding.case.headline == "req-2 is thrown out again and again" and finding.case.seq == 2
    assert "preempted 5 times" in finding.case.evidence
    made.drop(often)
    made.run(6)
    assert made.standing == []


# --- the queue --------------------------------------------------------------------------------------------------------


def test_a_head_that_stands_still_for_half_a_minute_starves() -> None:
    made = MadeView()
    made.sequence(blocks=40)
    head = made.sequence(wait="watermark")
    made.run(29)
    assert made.standing == []
    made.run(3)
    case = found(made, "starved").case
    assert case.headline == "req-2 starves at the head of the queue" and case.seq == 2
    words = "it has stood there 32 s: needs 9 blocks, 60 free; the watermark keeps 0; 0 sequences behind it"
    assert case.evidence == words
    assert "lower the watermark" in case.advice
    made.drop(head)
    made.run(6)
    assert made.standing == []


def test_a_queue_that_moves_is_no_starvation_however_long_each_has_waited() -> None:
    made = MadeView()
    made.sequence(blocks=40)
    for _ in range(6):
        head = made.sequence(wait="blocks")
        head.queued_s = 0.0
        made.run(20)
        assert made.standing == []
        made.drop(head)


def test_seats_that_keep_the_pool_half_empty_are_told_with_the_number_that_would_fill_it() -> None:
    made = MadeView()
    for _ in range(4):
        made.sequence(blocks=10)
    made.sequence(wait="seats")
    made.run(9)
    assert made.standing == []
    made.run(3)
    case = found(made, "seats").case
    assert "waiting for a seat: 1, running: 4; at most 40% of the pool was active" in case.evidence
    assert case.advice == "raise max_num_seqs to about 9"
    made.sequence(blocks=30)
    made.run(6)
    assert made.standing == []


# --- the prefix cache -------------------------------------------------------------------------------------------------


def look_up(made: MadeView, hit: int) -> None:
    totals = made.view.counters
    totals.prefix_queried_tokens += 100
    totals.prefix_hit_tokens += hit


def test_a_cache_that_never_hits_is_told_after_enough_prompts_and_time() -> None:
    made = MadeView()
    made.run(1)
    made.ended(tokens=50, times=9)
    made.run(25, lambda: look_up(made, 0))
    assert made.standing == []  # too few requests ended
    made.ended(tokens=50)
    made.run(1)
    case = found(made, "cache-misses").case
    assert case.weight == "note" and case.evidence.startswith("0 of 5,000 prompt tokens were found in it")
    made.run(20, lambda: look_up(made, 10))
    assert made.standing == []


def test_a_cache_that_hits_now_and_then_and_one_that_is_off_are_quiet() -> None:
    made = MadeView(policy="reserve-max-model-len")
    made.ended(tokens=50, times=20)
    made.run(60, lambda: look_up(made, 0))
    hitting = MadeView()
    hitting.ended(tokens=50, times=20)
    hitting.run(60, lambda: look_up(hitting, 5))
    assert made.standing + hitting.standing == []


def recompute_lost(made: MadeView, seq: int) -> None:
    """Two blocks are cached, evicted, and the same content is cached again."""
    for by in (1, seq):
        made.tell(Cached(id=made.next_id(), seq=by, logical=0, runs=[(4, 2)], hashes=[71, 72], parent=0))
        made.view.wall_s += 0.1
        made.tell(Evicted(id=made.next_id(), runs=[(4, 2)]))


def test_blocks_computed_again_soon_after_their_eviction_are_thrash() -> None:
    made = MadeView()
    made.run(10, lambda: look_up(made, 5))
    assert made.standing == []
    made.run(10, lambda: recompute_lost(made, seq=2))
    case = found(made, "cache-thrash").case
    assert case.weight == "warning" and "5% of looked-up prompt tokens were found" in case.evidence
    made.run(70)
    assert made.standing == []


def test_a_preempted_sequence_that_fills_its_own_blocks_again_is_not() -> None:
    made = MadeView()
    made.run(20, lambda: recompute_lost(made, seq=1))
    assert made.standing == []


# --- waste ------------------------------------------------------------------------------------------------------------


def test_blocks_that_are_large_for_their_sequences_are_told_with_a_size_that_is_not() -> None:
    made = MadeView(block_size=64)
    for _ in range(5):
        made.sequence(blocks=1, tokens=40)
    made.run(9)
    assert made.standing == []
    made.run(2)
    case = found(made, "block-size").case
    assert case.evidence == (
        "38% of held slots are empty tails, 120 KiB: 24 of 64 in the last block of each of 5 sequences"
    )
    assert case.advice == "--block-size 4 would leave about 4% empty"


def test_blocks_that_are_well_filled_and_tails_of_a_few_sequences_are_quiet() -> None:
    made = MadeView(block_size=64)
    for _ in range(5):
        made.sequence(blocks=3, tokens=170)
    made.run(30)
    few = MadeView(block_size=64)
    few.sequence(blocks=1, tokens=3)
    few.run(30)
    assert made.standing + few.standing == []


def test_reservations_that_stand_empty_are_told_with_what_ended_ones_never_filled() -> None:
    made = MadeView(policy="reserve-max-model-len")
    made.sequence(blocks=20, tokens=80)
    made.sequence(blocks=20, tokens=80)
    made.view.ended_filled_slots, made.view.ended_unfilled_slots = 300, 700
    made.run(6)
    case = found(made, "reservation").case
    assert "75% of held slots hold no token" in case.evidence
    assert "of what ended requests held, 70% was never filled" in case.evidence
    assert "about 18 sequences" in case.advice


def test_a_reservation_that_fills_up_resolves_it() -> None:
    made = MadeView(policy="reserve-max-model-len")
    sequence = made.sequence(blocks=10, tokens=80)
    made.run(6)
    assert made.standing == ["reservation"]
    made.view.blocks.write(sequence.table, [12] * 10, made.view.step)
    made.run(6)
    assert made.standing == []
