"""One decode step on a CPU: the engine, everything a step does included, beside transformers' ``generate``.

    python -m benchmarks.decode [--rounds N]

Same weights (bf16), same prompts, same threads, in one process and in turn. A step's time is the median over the
steps that only decode. Batches are the first of batch57.json; for a context of 1,024 their prompts are repeated.
"""

from __future__ import annotations

import argparse
import statistics

from benchmarks.cpu.contestants import Contest, Job, fixture
from benchmarks.cpu.rounds import compare, print_row

CASES = ((1, 57, 1.25), (4, 57, 1.2), (16, 57, 1.2), (64, 57, 1.2), (16, 1024, 1.2))
"""Batch, context at the start, and how many times as fast is the least expected."""
STEPS = 16


def main() -> int:
    parser = argparse.ArgumentParser(description="decode steps beside transformers' generate")
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    contest = Contest()
    print(f"decode step, {contest.name}")
    print(f"{'':<44}{'engine':>9}{'generate':>10}{'ratio':>9}")
    for batch, context, at_least in CASES:
        jobs = [
            Job((job.prompt * (1 + context // len(job.prompt)))[:context], STEPS) for job in fixture("batch57")[:batch]
        ]
        compared = compare(
            lambda jobs=jobs: statistics.median(contest.engine(jobs).decode_step_s),  # type: ignore[misc]
            lambda jobs=jobs: statistics.median(contest.generate(jobs).decode_step_s),  # type: ignore[misc]
            rounds,
        )
        print_row(f"batch {batch}, context {context}, ms a step", compared, at_least, unit=1e-3)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
