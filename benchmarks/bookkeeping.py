"""What a step costs beside the model: scheduling, settling, events, and what a watcher adds.

    python -m benchmarks.bookkeeping [--chart FILE.svg]

256 sequences decode in a pool of 100,000 blocks under a runner that computes nothing, so that all that is left is
bookkeeping. Beside it, in the same run and interleaved, the plainest loop that could do the job: one list of tokens
a sequence and one counter, no pool, no events. Times are of one core, medians over the steps.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import msgspec

from benchmarks.chart import BUDGETS, budget_bar, draw
from kvtop.engine.config import SchedulerConfig
from kvtop.engine.control import Inject
from kvtop.engine.engine import Engine
from kvtop.engine.engine_info import engine_info
from kvtop.engine.events import Batch
from kvtop.engine.plan import Sampled, StepPlan, StepResult
from kvtop.engine.requests import Request, Turn
from kvtop.engine.sequences import Sequence
from kvtop.view.pool_view import PoolView

SEQUENCES = 256
NUM_BLOCKS = 100_000
PROMPT = 512
STEPS = 400
BUDGET_SECONDS = 0.002
"""What was expected: under 2 ms a step, 5% of the 40 ms an 8B model takes at this batch on one card."""


class NoRunner:
    """Computes nothing; the next token is the position."""

    def run(self, plan: StepPlan) -> StepResult:
        sampled = [[Sampled(entry.start % 1000)] if entry.draws else [] for entry in plan.scheduled]
        return StepResult(sampled, plan.num_tokens)

    def release(self, sequence: Sequence) -> None:
        """Nothing is kept."""


class NoText:
    """A codec and stream without text."""

    stopped: str | None = None
    text = ""

    def encode(self, prompt: str, *, chat: bool = False) -> list[int]:
        return [0]

    def encode_turns(self, turns: list[Turn]) -> list[int]:
        return [0]

    def decode(self, tokens: list[int]) -> str:
        return ""

    def stream(self, request: Request) -> NoText:
        return self

    def push(self, token: int) -> str:
        return ""

    def flush(self) -> str:
        return ""


def main() -> None:
    parser = argparse.ArgumentParser(description="bookkeeping of a step")
    parser.add_argument("--chart", type=Path)
    chart = parser.parse_args().chart
    engine = _engine()
    encoder = msgspec.msgpack.Encoder()
    view = PoolView()
    requests = [
        Request(id=f"r{i}", prompt_token_ids=[(i + j) % 1000 for j in range(PROMPT)], max_tokens=STEPS + 50)
        for i in range(SEQUENCES)
    ]
    engine.apply(Inject(requests=requests))
    while len(engine.scheduler.roster.running) < SEQUENCES or engine.scheduler.roster.prefilling:
        _apply(view, engine.step())
    times: dict[str, list[float]] = {"engine step": [], "encode": [], "view": [], "plain loop": []}
    plain = [list(range(PROMPT)) for _ in range(SEQUENCES)]
    for _ in range(STEPS):
        started = time.perf_counter()
        batch = engine.step()
        stepped = time.perf_counter()
        encoder.encode(batch)
        encoded = time.perf_counter()
        _apply(view, batch)
        applied = time.perf_counter()
        for tokens in plain:
            tokens.append(len(tokens) % 1000)
        looped = time.perf_counter()
        for name, seconds in zip(
            times, (stepped - started, encoded - stepped, applied - encoded, looped - applied), strict=True
        ):
            times[name].append(seconds)
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(f"{SEQUENCES} sequences, {NUM_BLOCKS:,} blocks, {STEPS} decode steps; medians")
    for name, seconds in medians.items():
        print(f"  {name:12} {seconds * 1e6:8.0f} µs   {seconds / medians['plain loop']:6.1f} × the plain loop")
    used = (medians["engine step"] + medians["encode"]) / BUDGET_SECONDS
    print(f"  of {BUDGET_SECONDS * 1e3:g} ms a step the engine with its events uses {used:.0%}")
    if chart:
        bars = [
            budget_bar(name, seconds, BUDGET_SECONDS, f"{seconds * 1e3:.3f} ms") for name, seconds in medians.items()
        ]
        setting = f"{SEQUENCES} sequences decode, {NUM_BLOCKS:,} blocks; {BUDGET_SECONDS * 1e3:g} ms a step are allowed"
        draw(chart, "Bookkeeping of a step", setting, bars, BUDGETS)


def _engine() -> Engine:
    config = SchedulerConfig(
        num_blocks=NUM_BLOCKS, max_num_seqs=SEQUENCES, max_num_batched_tokens=8192, max_model_len=8192
    )
    info = engine_info(
        config,
        model="none",
        device="none",
        dtype="none",
        kernel="none",
        kv_bytes_per_token=131_072,
    )
    return Engine(info, config, NoRunner(), NoText())


def _apply(view: PoolView, batch: Batch | None) -> None:
    if batch is not None:
        view.apply(batch)


if __name__ == "__main__":
    main()
