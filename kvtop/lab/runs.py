"""Running experiments: the rows of a table, in as many processes as there are cores.

Rows know nothing of each other, so their order of running is free; outcomes come back in the order that was asked for.
A single row, or a single core, runs in this process.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from ctypes import c_int64
from dataclasses import dataclass
from typing import Any

from kvtop.engine.cost import CostModel
from kvtop.lab.experiment import Experiment
from kvtop.lab.price import Price, price
from kvtop.lab.published import PublishedTrial
from kvtop.lab.trace import row
from kvtop.lab.trial import Trial
from kvtop.lab.workload import sample

Report = Callable[[int], None]
"""Told now and then how many requests have ended."""
Progress = Callable[[], AbstractContextManager[Report]]
START_METHOD = "fork" if sys.platform == "linux" else "spawn"
"""A forked worker is there at once. It is forked before anything here starts a thread, and imports nothing."""
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Pricing:
    """How the rows are to be priced."""

    cost: CostModel
    charge_recompute: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """A row: the figures of trace.py, its price if one was asked for, and requests that did not run to their end."""

    experiment: Experiment
    figures: dict[str, Any]
    price: Price | None
    rejected: int
    exhausted: int


@contextmanager
def silence() -> Iterator[Report]:
    yield lambda ended: None


def run_one(
    experiment: Experiment, published: bool, pricing: Pricing | None, report: Report = lambda ended: None
) -> Outcome:
    """Run an experiment to its end. ``published``: with the fault of the published program.

    Raises:
        WrongUsage: the published program has no rule for this experiment.
        ValueError: a value is outside its range.
    """
    kind = PublishedTrial if published else Trial
    gc.disable()  # nothing here makes cycles, and to look for them means walking over millions of prompt tokens
    try:
        trace = kind(experiment, sample(experiment)).run(report)
    finally:
        gc.enable()
    priced = price(trace, pricing.cost, pricing.charge_recompute) if pricing else None
    return Outcome(experiment, row(experiment, trace), priced, trace.rejected, trace.exhausted)


def run_all(
    experiments: Sequence[Experiment],
    published: bool = False,
    pricing: Pricing | None = None,
    progress: Progress = silence,
) -> list[Outcome]:
    """Run all of them; raises what ``run_one`` raises. ``progress`` is told of ended requests over all rows."""
    processes = min(len(experiments), usable_cores())
    if processes > 1:
        return _run_in_processes(experiments, published, pricing, progress, processes)
    outcomes: list[Outcome] = []
    with progress() as report:
        before = 0

        def report_row(ended: int) -> None:
            report(before + ended)

        for experiment in experiments:
            outcomes.append(run_one(experiment, published, pricing, report_row))
            before += experiment.requests
    return outcomes


def usable_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _run_in_processes(
    experiments: Sequence[Experiment],
    published: bool,
    pricing: Pricing | None,
    progress: Progress,
    processes: int,
) -> list[Outcome]:
    context: Any = multiprocessing.get_context(START_METHOD)  # shared arrays have no type of a public name
    ended = context.Array(c_int64, len(experiments), lock=False)
    executor = ProcessPoolExecutor(processes, context, initializer=_begin_worker, initargs=(ended,))
    try:
        rows = {
            number: executor.submit(_run_row, number, experiments[number], published, pricing)
            for number in _longest_first(experiments)
        }
        with progress() as report:
            running: set[Future[Outcome]] = set(rows.values())
            while running:
                done, running = wait(running, _POLL_SECONDS, FIRST_EXCEPTION)
                for row_done in done:
                    row_done.result()
                report(sum(ended))
        return [rows[number].result() for number in range(len(experiments))]
    except BaseException:
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


def _longest_first(experiments: Sequence[Experiment]) -> list[int]:
    """Their positions, those that take longest first: the smaller the blocks, the more of them are handed out."""
    return sorted(
        range(len(experiments)),
        key=lambda i: (experiments[i].reserves, experiments[i].block_size, -experiments[i].requests),
    )


_ended: Any
"""In a worker: an array shared with the process that waits, of how many requests of each row have ended."""


def _begin_worker(ended: Any) -> None:
    global _ended
    _ended = ended
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the waiting process hears it too, and ends its workers


def _run_row(number: int, experiment: Experiment, published: bool, pricing: Pricing | None) -> Outcome:
    def report(ended: int) -> None:
        _ended[number] = ended

    return run_one(experiment, published, pricing, report)
