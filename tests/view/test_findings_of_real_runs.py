"""Findings on the real scheduler, simulated: what fires, what does not, and that the advice is good."""

from __future__ import annotations

import random

import pytest

from kvtop.engine.control import Inject, Set
from kvtop.engine.requests import Request
from kvtop.view.finding import Finding
from kvtop.view.findings import FindingsLog
from kvtop.view.judge_memory import seats_that_fit, watermark_that_fits
from kvtop.view.pool_view import PoolView
from tests.sources.traffic import VirtualClock, simulated_engine


class Run:
    """An engine that works off its requests, watched."""

    def __init__(self, requests: list[Request], change: Set | None = None, **settings: object) -> None:
        self.view = PoolView()
        self.log = FindingsLog()
        self.fired: dict[tuple[str, float], Finding] = {}
        self.seats: list[int] = []
        self.watermarks: list[float] = []
        clock = VirtualClock()
        engine = simulated_engine(clock, **settings)  # type: ignore[arg-type]
        if change is not None:
            assert not engine.apply(change).error
        engine.apply(Inject(requests=requests))
        while engine.has_work:
            batch = engine.step()
            if batch is None:
                clock.now += 0.05
                continue
            self.view.apply(batch)
            for finding in self.log.observe(self.view):
                self.fired.setdefault((finding.key, finding.since_s), finding)
            if "admission" in self.keys and (seats := seats_that_fit(self.view)):
                self.seats.append(seats)
                self.watermarks.append(watermark_that_fits(self.view) or 0.0)

    @property
    def keys(self) -> list[str]:
        """Rules that fired, once for each time."""
        return [key for key, _ in self.fired]

    @property
    def preemptions(self) -> int:
        return self.view.counters.preemptions


def requests(count: int, prefixes: int = 0, every_s: float = 0.0, longest: int = 600) -> list[Request]:
    chance = random.Random(5)
    common = [[chance.randrange(1, 86) for _ in range(320)] for _ in range(prefixes)]
    return [
        Request(
            id=f"req-{i}",
            prompt_token_ids=(common[i % prefixes] if prefixes else [])
            + [chance.randrange(1, 86) for _ in range(chance.randint(16, 400) if not prefixes else 20)],
            max_tokens=60 if prefixes else chance.randint(50, longest),
            ignore_eos=True,
            arrival_s=i * every_s,
        )
        for i in range(count)
    ]


@pytest.fixture(scope="module")
def tight() -> Run:
    return Run(requests(120), num_blocks=400)


def test_a_tight_pool_is_found_to_admit_too_much_once(tight: Run) -> None:
    assert tight.keys.count("admission") == 1
    (admission,) = (finding for (key, _), finding in tight.fired.items() if key == "admission")
    assert admission.case.weight == "problem" and "% of prefill is recompute" in admission.case.evidence


def test_either_advice_taken_saves_most_preemptions(tight: Run) -> None:
    seats, watermark = sorted(tight.seats)[len(tight.seats) // 2], max(tight.watermarks)
    assert tight.preemptions > 100
    for change in (Set(name="max_num_seqs", value=str(seats)), Set(name="watermark", value=str(watermark))):
        better = Run(requests(120), change, num_blocks=400)
        assert better.preemptions < tight.preemptions / 5, change
        assert better.view.counters.computed_tokens < tight.view.counters.computed_tokens
        assert better.keys.count("again") == 0


def test_an_ample_pool_with_seats_for_all_has_nothing_grave_to_say() -> None:
    run = Run(requests(60), num_blocks=4_000)
    assert {finding.case.weight for finding in run.fired.values()} <= {"note"}


def test_few_seats_beside_a_large_pool_are_found() -> None:
    run = Run(requests(40), num_blocks=4_000, max_num_seqs=8)
    assert run.keys.count("seats") == 1


def test_prefixes_that_come_round_too_late_are_thrash_and_close_ones_are_not() -> None:
    thrash = Run(requests(100, prefixes=30, every_s=0.3), num_blocks=300, max_num_seqs=16)
    assert thrash.keys.count("cache-thrash") == 1 and "cache-misses" not in thrash.keys
    close = Run(requests(100, prefixes=3, every_s=0.3), num_blocks=300, max_num_seqs=16)
    assert not {"cache-thrash", "cache-misses"} & set(close.keys)
    assert close.view.counters.prefix_hit_tokens > 10 * max(1, thrash.view.counters.prefix_hit_tokens)


def test_a_small_swap_space_is_found_full() -> None:
    run = Run(requests(40), num_blocks=400, preempt="swap", swap_memory=20 * 2**21)
    assert "swap" in run.keys


def test_reservations_are_found_to_stand_empty() -> None:
    run = Run(requests(40), num_blocks=1_400, policy="reserve-max-model-len", max_model_len=2_048)
    assert run.keys.count("reservation") == 1
