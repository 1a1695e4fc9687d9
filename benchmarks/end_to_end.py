"""Whole workloads on a CPU: the engine beside transformers' ``generate`` and continuous batching.

    python -m benchmarks.end_to_end [--rounds N] [--vllm PYTHON]

Same weights (bf16), same token ids in, the same number of tokens out, in one process and in turn. The ragged workload
goes to ``generate`` as it must, in static batches of 16 that each run until their longest answer is done; both then
count the tokens that were asked for. With the interpreter of an environment that has vLLM's CPU build, that one runs
the ragged workload too, in a process of its own and in turn with the engine.
"""

from __future__ import annotations

import argparse

from benchmarks.cpu.contestants import Contest, fixture
from benchmarks.cpu.rounds import compare, print_row
from benchmarks.cpu.vllm_peer import VllmPeer


def main() -> int:
    parser = argparse.ArgumentParser(description="workloads beside transformers")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--vllm", metavar="PYTHON", help="the interpreter of an environment with vLLM's CPU build")
    arguments = parser.parse_args()
    rounds = arguments.rounds
    contest = Contest()
    batch57, workload64 = fixture("batch57"), fixture("workload64")
    print(f"end to end, {contest.name}")
    print(f"{'':<44}{'engine':>9}{'other':>10}{'ratio':>9}")
    for count, at_least, at_least_continuous in ((16, 1.2, 2.2), (64, 1.15, 2.5)):
        jobs = batch57[:count]
        compared = compare(
            lambda jobs=jobs: contest.engine(jobs).seconds,  # type: ignore[misc]
            lambda jobs=jobs: contest.generate(jobs).seconds,  # type: ignore[misc]
            rounds,
        )
        print_row(f"batch57, {count} at once, s, generate", compared, at_least)
        compared = compare(
            lambda jobs=jobs: contest.engine(jobs).seconds,  # type: ignore[misc]
            lambda jobs=jobs: contest.continuous_batching(jobs).seconds,  # type: ignore[misc]
            1,
        )
        print_row(f"batch57, {count} at once, s, continuous batching", compared, at_least_continuous)
    compared = compare(
        lambda: contest.engine(workload64).seconds,
        lambda: contest.generate_in_batches(workload64, 16).seconds,
        rounds,
    )
    print_row("workload64, ragged, s, generate by 16", compared, 2.3)
    if arguments.vllm:
        with VllmPeer(arguments.vllm, contest.folder) as peer:
            peer.run(workload64[:4])  # whatever it prepares at the first call
            compared = compare(lambda: contest.engine(workload64).seconds, lambda: peer.run(workload64).seconds, rounds)
            print_row(f"workload64, ragged, s, vLLM {peer.version}", compared, 1.0)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
