"""The lab's workload: how long each prompt is and how long its answer will be, which no policy knows beforehand.

Lengths are log-normal, as in the published experiment: one generator, for each request first the prompt's draw, then
the answer's. The same seed gives the same lengths on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from random import Random

from kvtop.lab.experiment import Experiment

PROMPT_MU, OUTPUT_MU, SIGMA = 6.5, 4.8, 1.0
PROMPT_RANGE = 16, 6_000


@dataclass(frozen=True, slots=True)
class Work:
    """One request's lengths, in tokens."""

    prompt_tokens: int
    output_tokens: int


def sample(experiment: Experiment) -> list[Work]:
    """The requests of an experiment, in the order in which they wait."""
    random = Random(experiment.seed)
    output_mu = OUTPUT_MU if experiment.output_median is None else log(experiment.output_median)
    work = []
    for _ in range(experiment.requests):
        prompt = _clamp(int(exp(random.gauss(PROMPT_MU, SIGMA))), *PROMPT_RANGE)
        output = _clamp(int(exp(random.gauss(output_mu, SIGMA))), 1, experiment.max_tokens)
        work.append(Work(prompt, output))
    return work


def _clamp(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))
