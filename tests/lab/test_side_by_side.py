"""Lanes in lock step come to the figures of ``kvtop sim``, and their pictures are of the same slots."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvtop.engine.cost import CARDS
from kvtop.engine.events import EngineInfo
from kvtop.lab.combinations import combinations
from kvtop.lab.engine_lane import EngineLane
from kvtop.lab.experiment import Experiment
from kvtop.lab.lane import TrialLane
from kvtop.lab.pool_picture import CACHED, EXTERNAL, FREE, INTERNAL, LIVE, RESERVED
from kvtop.lab.presets import IN_REGIONS, PUBLISHED, TWELVE_SLOTS, experiments_preset
from kvtop.lab.runs import run_all, run_one
from kvtop.lab.side_by_side import SideBySide
from kvtop.lab.traffic import Traffic
from kvtop.lab.trial import Trial
from kvtop.lab.what_if import WORKLOAD_INFO, changed, simulate
from kvtop.lab.what_if_preset import AS_IT_WAS, in_words, usual_tries, what_if_preset
from kvtop.lab.workload import sample
from kvtop.view.waste import measure_waste
from tests.sources.traffic import requests

SMALL = {"requests": [80], "pool_tokens": [20_000], "max_tokens": [600]}
EVERY_KIND = [
    *combinations({**SMALL, "block_size": [256, 16]}),
    *combinations(
        {**SMALL, "policy": ["reserve-prompt-max-tokens", "reserve-max-model-len"], "placement": ["first-fit"]}
    ),
]


def lanes_of(*experiments: Experiment, published: bool = False) -> SideBySide:
    return SideBySide(experiments_preset("", experiments, published).build())


@pytest.mark.parametrize("published", [False, True])
def test_run_to_their_end_lanes_have_the_totals_of_kvtop_sim(published: bool) -> None:
    experiments = combinations({**SMALL, "block_size": [256, 16]}) if published else EVERY_KIND
    shown = lanes_of(*experiments, published=published)
    while not shown.ended:
        shown.advance()
    for lane, experiment in zip(shown.lanes, experiments, strict=True):
        figures, row = lane.figures(), run_one(experiment, published, None).figures
        assert (figures.steps, figures.preemptions) == (row["steps"], row["preemptions"])
        assert (figures.mean_running, figures.kv_utilization) == (row["mean_running"], row["kv_utilization"])
        assert figures.finished == figures.requests == row["requests"] and figures.waiting == figures.running == 0
    assert shown.step == max(lane.figures().steps for lane in shown.lanes)


@pytest.mark.parametrize("experiment", EVERY_KIND, ids=lambda e: f"{e.policy}-{e.block_size}-{e.placement}")
def test_a_picture_shows_the_slots_that_the_figures_count(experiment: Experiment) -> None:
    lane = TrialLane(experiment, sample(experiment))
    external = preempted = 0
    while not lane.ended:
        trace, totals = lane.trial.trace, lane.picture().totals()
        assert totals[LIVE] == trace.live_tokens[-1]
        assert totals[LIVE] + totals[RESERVED] + totals[INTERNAL] == trace.held_slots[-1]
        assert sum(totals) == lane.num_slots
        assert totals[EXTERNAL] == lane.trial.stuck_slots()
        for slots_per_cell in (1, 7, 16, 300):
            cells = lane.picture().cells(slots_per_cell)
            assert cells.sum(axis=0).tolist() == list(totals)
            assert (cells[:-1].sum(axis=1) == slots_per_cell).all() and (cells >= 0).all()
        external += totals[EXTERNAL]
        preempted = lane.figures().preemptions
        for _ in range(40):
            if not lane.ended:
                lane.advance()
    assert lane.figures().sums.external >= external
    assert (external > 0) == (experiment.placement == "first-fit" and experiment.policy == "reserve-prompt-max-tokens")
    assert (preempted > 0) == (experiment.policy == "paged")


def test_a_counted_pool_is_drawn_packed_in_the_order_of_admission() -> None:
    experiment = Experiment(policy="reserve-max-model-len", pool_tokens=40_000, requests=20)
    lane = TrialLane(experiment, sample(experiment))
    held = lane.picture().cells(8_192)
    assert lane.note and (held[:4, FREE] == 0).all() and held[4, FREE] == held[4].sum() == 40_000 - 4 * 8_192
    assert held[:4, LIVE].tolist() == [holding.tokens for holding in lane.trial.holdings()]


def letters(shown: SideBySide) -> list[str]:
    """Lanes of the toy as text: letters of tokens, small ones of reserved slots, - never filled, / external."""
    texts = []
    for lane in shown.lanes:
        picture = lane.picture()
        kinds = picture.cells(1).argmax(axis=1).tolist()
        names = [name for name in picture.holders() for _ in range(picture.block_size)]
        signs = {INTERNAL: "-", EXTERNAL: "/", FREE: "."}
        texts.append(
            "".join(
                name if kind == LIVE else name.lower() if kind == RESERVED else signs[kind]
                for kind, name in zip(kinds, names, strict=True)
            )
        )
    return texts


def test_the_twelve_slots_begin_with_the_lesson_s_picture_and_go_on_to_every_kind_of_waste() -> None:
    shown = SideBySide(TWELVE_SLOTS.build())
    assert letters(shown) == ["AAAaaaBBbbb.", "AAA-BB......"]
    seen = [letters(shown)]
    while not shown.ended:
        shown.advance()
        seen.append(letters(shown))
    contiguous, paged = zip(*seen, strict=True)
    assert contiguous[6] == "////DDDDd--/" and paged[6] == "..DDDD......"
    assert [lane.figures().steps for lane in shown.lanes] == [10, 7]
    assert all(lane.figures().preemptions == 0 for lane in shown.lanes)


def test_the_published_preset_is_that_of_kvtop_sim_and_the_regions_differ_in_placement_only() -> None:
    published, regions = PUBLISHED.build(), IN_REGIONS.build()
    experiments = [lane.experiment for lane in published if isinstance(lane, TrialLane)]
    assert experiments == combinations({})
    placed = [lane.experiment for lane in regions if isinstance(lane, TrialLane)]
    assert [replace(one, placement="counted") for one in placed] == experiments
    assert [one.placement for one in placed] == ["first-fit", "first-fit", "counted", "counted"]


def test_requests_that_join_the_queue_late_are_scheduled_as_if_they_had_waited_in_it() -> None:
    experiment = Experiment(pool_tokens=200_000, requests=300, block_size=64)
    by_itself = Trial(experiment, sample(experiment))
    queued = Trial(experiment, [])
    for number, lengths in enumerate(sample(experiment)):
        queued.add(by_itself.request(number), lengths)
    assert by_itself.run() == queued.run()


def small_engine() -> EngineInfo:
    return changed(WORKLOAD_INFO, {"pool_tokens": 640, "max_model_len": 512})


@pytest.mark.parametrize("number", range(4))
def test_a_what_if_s_lane_comes_to_the_row_that_kvtop_sim_prints(number: int) -> None:
    traffic, info = Traffic(requests(30, seed=5), {}), small_engine()
    changes = usual_tries(info)[number]
    lane = EngineLane("", traffic, changed(info, changes), CARDS["80gb"])
    external = cached = 0
    while not lane.ended:
        totals = lane.picture().totals()
        waste = measure_waste(lane._meter.view)
        assert waste is not None and sum(totals) == lane.num_slots == waste.total
        assert totals[LIVE] == waste.live and totals[EXTERNAL] == waste.external
        assert totals[LIVE] + totals[RESERVED] + totals[INTERNAL] == waste.held
        external, cached = external + totals[EXTERNAL], cached + totals[CACHED]
        lane.advance()
    figures, row = lane.figures(), simulate(traffic, changed(info, changes), CARDS["80gb"])
    assert (figures.steps, figures.preemptions, figures.finished) == (row["steps"], row["preemptions"], row["requests"])
    assert (figures.mean_running, figures.kv_utilization) == (row["mean_running"], row["kv_utilization"])
    assert figures.sums.external / figures.sums.pool == pytest.approx(row["external_share"])
    assert (cached > 0) == lane.caching and (figures.sums.reserved > 0) == lane.reserving


def test_a_what_if_tries_what_one_would_try_first_and_names_it() -> None:
    info = small_engine()
    preset = what_if_preset("what ran", Traffic(requests(5, seed=1), {}), info, usual_tries(info))
    titles = [lane.title for lane in preset.build()]
    assert titles == [AS_IT_WAS, "watermark 5%", "32-token blocks", "reserve prompt + max_tokens"]
    assert "5 requests" in preset.about and "640 slots" in preset.about
    other = changed(info, {"watermark": 0.1, "block_size": 32, "policy": "reserve-max-model-len"})
    assert [in_words(changes) for changes in usual_tries(other)[1:]] == ["watermark 0%", "16-token blocks", "paged"]


@pytest.mark.slow
def test_the_published_preset_run_to_its_end_has_every_total_of_kvtop_sim() -> None:
    shown = SideBySide(PUBLISHED.build())
    while not shown.ended:
        shown.advance()
    for lane, outcome in zip(shown.lanes, run_all(combinations({})), strict=True):
        figures, row = lane.figures(), outcome.figures
        assert (figures.steps, figures.preemptions) == (row["steps"], row["preemptions"])
        assert (figures.mean_running, figures.kv_utilization) == (row["mean_running"], row["kv_utilization"])
    assert shown.step == 18_242
