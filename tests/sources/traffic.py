"""A simulated engine on a virtual clock, and its batches: quick, deterministic material for recordings and views."""

from __future__ import annotations

import random
from dataclasses import replace

from kvtop.engine.control import Inject
from kvtop.engine.cost import CARDS, DEFAULT_CARD
from kvtop.engine.engine import Engine
from kvtop.engine.events import Batch
from kvtop.engine.requests import Request
from kvtop.engine.simulator import WORDS, build_simulated_engine
from kvtop.settings import EngineSettings

SLOW_CARD = replace(CARDS[DEFAULT_CARD], overhead_seconds=0.01)


class VirtualClock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


def simulated_engine(clock: VirtualClock, **settings: int) -> Engine:
    return build_simulated_engine(EngineSettings(**settings), SLOW_CARD, clock.spend, clock, clock)  # type: ignore[arg-type]


def requests(count: int, seed: int = 1, longest: int = 80) -> list[Request]:
    chance = random.Random(seed)
    return [
        Request(
            id=f"req-{i}",
            prompt=" ".join(random.Random(i % 3).choices(WORDS, k=chance.randrange(3, longest))),
            max_tokens=chance.randrange(10, longest),
            n=chance.choice((1, 1, 2)),
        )
        for i in range(count)
    ]


def batches(count: int, seed: int = 1, num_blocks: int = 24, requests_in: int = 60) -> list[Batch]:
    """The first ``count`` batches of a busy engine whose pool is tight."""
    engine = simulated_engine(VirtualClock(), num_blocks=num_blocks, max_num_seqs=8)
    engine.apply(Inject(requests=requests(requests_in, seed)))
    made: list[Batch] = []
    while engine.has_work and len(made) < count:
        batch = engine.step()
        assert batch is not None
        made.append(batch)
    return made
