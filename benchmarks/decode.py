"""One decode step on a CPU: the engine, everything a step does included, beside transformers' ``generate``.

    python -m benchmarks.decode [--rounds N] [--chart FILE.svg]

Same weights (bf16), same prompts, same threads, in one process and in turn. A step's time is the median over the
steps that only decode. Batches are the first of batch57.json; for a context of 1,024 their prompts are repeated.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from benchmarks.chart import RATIOS, draw, ratio_bars
from benchmarks.cpu.contestants import Contest, Job, fixture
from benchmarks.cpu.rounds import Row, compare, print_head, print_row

CASES = ((1, 57, 1.25), (4, 57, 1.2), (16, 57, 1.2), (64, 57, 1.2), (16, 1024, 1.2))
"""Batch, context at the start, and how many times as fast is the least expected."""
STEPS = 16


def main() -> int:
    parser = argparse.ArgumentParser(description="decode steps beside transformers' generate")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chart", type=Path)
    arguments = parser.parse_args()
    contest = Contest()
    print(f"decode step, {contest.name}")
    print_head("generate")
    rows = []
    for batch, context, at_least in CASES:
        prompts = [(job.prompt * (1 + context // len(job.prompt)))[:context] for job in fixture("batch57")[:batch]]
        jobs = [Job(prompt, STEPS) for prompt in prompts]
        compared = compare(
            lambda jobs=jobs: statistics.median(contest.engine(jobs).decode_step_s),  # type: ignore[misc]
            lambda jobs=jobs: statistics.median(contest.generate(jobs).decode_step_s),  # type: ignore[misc]
            arguments.rounds,
        )
        rows.append(Row(f"batch {batch}, context {context:,}", compared, at_least))
        print_row(rows[-1])
    if arguments.chart:
        draw(arguments.chart, "A decode step, engine beside generate", contest.name, ratio_bars(rows), RATIOS)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
