"""`kvtop sim --published` is the published experiment, to the last digit; without the fault, it is the sound one."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest

from kvtop.failure import WrongUsage
from kvtop.lab.experiment import PUBLISHED_ROWS, Experiment
from kvtop.lab.published import PublishedTrial
from kvtop.lab.trace import row
from kvtop.lab.trial import Trial
from kvtop.lab.workload import sample
from tests.lab.plain import plain

TABLE = [
    ("reserve-max-model-len", None, "46", "15.6%", "18,242", "0"),
    ("reserve-prompt-max-tokens", None, "105", "41.7%", "7,917", "0"),
    ("paged", 256, "186", "90.9%", "4,494", "364"),
    ("paged", 16, "196", "99.3%", "4,243", "317"),
]
"""Policy, block size, mean running, held memory that holds tokens, steps, preemptions."""


@cache
def run(kind: type[Trial], experiment: Experiment) -> dict[str, Any]:
    return row(experiment, kind(experiment, sample(experiment)).run())


def test_the_published_table_is_reproduced_in_every_digit() -> None:
    rows = [run(PublishedTrial, experiment) for experiment in PUBLISHED_ROWS]
    shown = [
        (
            *(figures["policy"], figures["block_size"], f"{figures['mean_running']:.0f}"),
            *(f"{figures['kv_utilization']:.1%}", f"{figures['steps']:,}", f"{figures['preemptions']:,}"),
        )
        for figures in rows
    ]
    assert shown == TABLE


@pytest.mark.slow
@pytest.mark.parametrize("experiment", PUBLISHED_ROWS, ids=lambda e: f"{e.policy}-{e.block_size}")
def test_the_published_table_equals_the_transcription(experiment: Experiment) -> None:
    assert run(PublishedTrial, experiment) == plain(experiment.policy, experiment.block_size)


def small_case(number: int) -> dict[str, Any]:
    """A pool of a few requests, so that many steps preempt."""
    draw = random.Random(number)
    return {
        "policy": draw.choice(["paged", "paged", "paged", "reserve-prompt-max-tokens", "reserve-max-model-len"]),
        "block_size": draw.choice([1, 8, 16, 32, 64, 128, 256, 256]),
        "requests": draw.randrange(20, 120),
        "seed": draw.randrange(1000),
        "pool_tokens": draw.randrange(8_300, 30_000),
        "max_num_seqs": draw.choice([6, 1024, 1024]),
        "max_tokens": draw.choice([300, 2048]),
    }


SMALL_CASES = [small_case(number) for number in range(20)]


@pytest.mark.parametrize("case", SMALL_CASES, ids=str)
def test_small_cases_equal_the_transcription_with_the_fault_and_without(case: dict[str, Any]) -> None:
    assert run(PublishedTrial, Experiment(**case)) == plain(**case)
    assert run(Trial, Experiment(**case)) == plain(**case, preempted_go_on_asking=False)


def test_the_small_cases_preempt_and_the_fault_shows_in_them() -> None:
    paged = [case for case in SMALL_CASES if case["policy"] == "paged"]
    both = [(run(PublishedTrial, Experiment(**case)), run(Trial, Experiment(**case))) for case in paged]
    assert sum(sound["preemptions"] > 0 for _, sound in both) > 8
    assert sum(faulty["preemptions"] > sound["preemptions"] for faulty, sound in both) > 4


def test_the_sound_rule_preempts_about_half_as_often_in_as_many_steps() -> None:
    coarse, fine = (run(Trial, experiment) for experiment in PUBLISHED_ROWS[2:])
    assert (coarse["steps"], coarse["preemptions"]) == (4493, 182)
    assert (fine["steps"], fine["preemptions"]) == (4242, 170)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pool_tokens": 5_000}, "slots, --pool-tokens is 5,000"),
        ({"policy": "reserve-max-model-len", "max_model_len": 900}, "tokens, --max-model-len is 900"),
        ({"policy": "reserve-prompt-max-tokens", "pool_tokens": 7_000}, "slots, --pool-tokens is 7,000"),
    ],
)
def test_what_the_published_program_has_no_rule_for_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(WrongUsage, match=words):
        run(PublishedTrial, Experiment(**change))
