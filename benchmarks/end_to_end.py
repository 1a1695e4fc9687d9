"""Whole workloads on a CPU: the engine beside ``generate``, transformers' continuous batching, and vLLM.

    python -m benchmarks.end_to_end [--rounds N] [--vllm PYTHON] [--chart FILE.svg]

Same weights (bf16), same token ids in, the same number of tokens out, in one process and in turn. The ragged workload
goes to ``generate`` as it must, in static batches of 16 that each run until their longest answer is done; both then
count the tokens that were asked for. PYTHON is the interpreter of an environment that has vLLM's CPU build; it runs
in a process of its own, in turn with the engine, first eager as the engine is, then with its model compiled by
torch.compile, which takes it a compiler and a minute at its first start.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from benchmarks.chart import RATIOS, draw, ratio_bars
from benchmarks.cpu.contestants import Contest, Job, Outcome, fixture
from benchmarks.cpu.rounds import Row, compare, print_head, print_row
from benchmarks.cpu.vllm_peer import VllmPeer


def main() -> int:
    parser = argparse.ArgumentParser(description="workloads beside transformers and vLLM")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--vllm", metavar="PYTHON", help="the interpreter of an environment with vLLM's CPU build")
    parser.add_argument("--chart", type=Path)
    arguments = parser.parse_args()
    contest = Contest()
    rows: list[Row] = []

    def run(name: str, jobs: list[Job], other: Callable[[list[Job]], Outcome], at_least: float, rounds: int) -> None:
        compared = compare(lambda: contest.engine(jobs).seconds, lambda: other(jobs).seconds, rounds)
        rows.append(Row(name, compared, at_least))
        print_row(rows[-1])

    print(f"end to end, {contest.name}")
    print_head("other")
    batch57, workload64 = fixture("batch57"), fixture("workload64")
    run("16 alike, generate", batch57[:16], contest.generate, 1.2, arguments.rounds)
    run("64 alike, generate", batch57, contest.generate, 1.15, arguments.rounds)
    run("16 alike, continuous batching", batch57[:16], contest.continuous_batching, 2.2, 1)
    run("64 alike, continuous batching", batch57, contest.continuous_batching, 2.5, 1)
    run("64 ragged, generate by 16", workload64, contest.generate_by_16, 2.3, arguments.rounds)
    for mode in ("eager", "compiled") if arguments.vllm else ():
        with VllmPeer(arguments.vllm, contest.folder, mode) as peer:
            peer.run(workload64[:4])  # whatever it prepares at the first call
            run(f"64 ragged, vLLM {peer.version}, {mode}", workload64, peer.run, 1.0, arguments.rounds)
    if arguments.chart:
        draw(arguments.chart, "Whole workloads, engine beside others", contest.name, ratio_bars(rows), RATIOS)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
