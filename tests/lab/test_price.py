"""Prices: stalls as a user feels them, lost work in seconds, on traces whose prices can be worked out by hand."""

from __future__ import annotations

import pytest

from kvtop.engine.cost import CARDS, CostModel
from kvtop.lab.experiment import Experiment
from kvtop.lab.price import price
from kvtop.lab.trace import Entry, Loss, Trace
from kvtop.lab.trial import Trial
from kvtop.lab.workload import Work, sample

SECOND_A_STEP = CostModel(
    card="a second a step",
    bandwidth_bytes_per_s=1e9,
    prefill_tokens_per_s=100,
    pcie_bytes_per_s=1e6,
    weights_bytes=0,
    kv_bytes_per_token=0,
    overhead_seconds=1.0,
)
PROMPT = 50


def trace(*happened: Loss | Entry, steps: int = 60) -> Trace:
    made = Trace()
    for _ in range(steps):
        made.add_step(1, 100, 112)
    made.entries = [entry for entry in happened if isinstance(entry, Entry)]
    made.losses = [loss for loss in happened if isinstance(loss, Loss)]
    return made


def lost(step: int, generated: int, seq: int = 1) -> Loss:
    return Loss(step, seq, PROMPT + generated, generated)


def back(step: int, kept: int = 0, seq: int = 1) -> Entry:
    return Entry(step, seq, PROMPT + kept, PROMPT, again=True)


def stalls(*happened: Loss | Entry) -> tuple[int, float | None, float | None, float | None]:
    priced = price(trace(*happened), SECOND_A_STEP, charge_recompute=False)
    return priced.stalls, priced.stall_p50_s, priced.stall_p95_s, priced.stall_max_s


def test_a_stall_lasts_from_the_last_token_shown_to_the_next_one_that_is_new() -> None:
    resumed = stalls(lost(10, generated=5), back(20, kept=5))
    assert resumed == (1, 11.0, 11.0, 11.0)  # the end of step 9 to the end of step 20
    restarted = stalls(lost(10, generated=5), back(20))
    assert restarted == (1, 16.0, 16.0, 16.0)  # five tokens are generated again, the sixth is new


def test_preempted_again_before_anything_new_was_shown_is_one_stall() -> None:
    again = stalls(lost(10, generated=5), back(20), lost(23, generated=3), back(30))
    assert again == (1, 26.0, 26.0, 26.0)  # the end of step 9 to the end of step 35
    apart = stalls(lost(10, generated=5), back(20, kept=5), lost(30, generated=15), back(34, kept=15))
    assert apart == (2, 5.0, 11.0, 11.0)


def test_percentiles_are_the_nearest_rank() -> None:
    happened: list[Loss | Entry] = []
    for seq in range(1, 21):
        happened += [lost(10, generated=1, seq=seq), back(10 + seq, kept=1, seq=seq)]
    happened.sort(key=lambda one: one.step)
    assert stalls(*happened) == (20, 11.0, 20.0, 21.0)


def test_without_preemptions_there_is_no_stall_figure() -> None:
    assert stalls() == (0, None, None, None)


def test_charging_lengthens_the_step_in_which_lost_tokens_come_back() -> None:
    happened = trace(Entry(1, 1, PROMPT, PROMPT, again=False), lost(10, generated=5), back(20, kept=5))
    free, charged = (price(happened, SECOND_A_STEP, charge) for charge in (False, True))
    assert free.seconds == pytest.approx(60 + 50 / 100)  # the first prefill is always paid
    assert charged.seconds == pytest.approx(free.seconds + 55 / 100)
    assert charged.stall_max_s == pytest.approx(11 + 55 / 100)
    assert free.recompute_seconds == charged.recompute_seconds == pytest.approx(55 / 100)


def test_swapping_moves_the_kv_out_and_back_and_steps_read_weights_and_kv() -> None:
    card = CARDS["80gb"]
    assert card.swap_seconds(1000) == pytest.approx(2 * 1000 * 131_072 / card.pcie_bytes_per_s)
    read = card.step_seconds(0, 2000) - card.step_seconds(0, 1000)
    assert read == pytest.approx(1000 * 131_072 / card.bandwidth_bytes_per_s)
    assert card.step_seconds(0, 0) == pytest.approx(0.001 + 16.06e9 / card.bandwidth_bytes_per_s)


def test_goodput_counts_every_answer_once() -> None:
    work = [Work(40, 60), Work(40, 60), Work(40, 60)]
    experiment = Experiment(pool_tokens=256, block_size=16)
    run = Trial(experiment, work).run()
    assert run.losses
    priced = price(run, SECOND_A_STEP, charge_recompute=False)
    assert priced.goodput_tokens_per_s * priced.seconds == pytest.approx(180)
    assert priced.tokens_per_s > priced.goodput_tokens_per_s


def test_the_workload_s_median_follows_the_setting() -> None:
    lengths = sorted(work.output_tokens for work in sample(Experiment(output_median=800, max_tokens=10**6)))
    assert lengths[len(lengths) // 2] == pytest.approx(800, rel=0.1)
    assert max(work.output_tokens for work in sample(Experiment(output_median=800))) == 2048
