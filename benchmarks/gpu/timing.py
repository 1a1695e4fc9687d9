"""How long a launch takes on a device: many launches in one CUDA graph, so that Python's share is not in it.

On a CPU (the dry run) the launches are simply timed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

_ROUNDS = 5


def seconds_per_launch(launches: Sequence[Callable[[], Any]], device: torch.device, seconds: float) -> float:
    """The median over rounds of the mean time of one of ``launches``, which run in turns for about ``seconds``."""
    for launch in launches:
        launch()
    if device.type != "cuda":
        started = time.perf_counter()
        for launch in launches:
            launch()
        return (time.perf_counter() - started) / len(launches)
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in launches:
            launch()
    once = _replay(graph, 1)
    repeats = max(1, int(seconds / _ROUNDS / once))
    return statistics.median(_replay(graph, repeats) for _ in range(_ROUNDS)) / len(launches)


def _replay(graph: torch.cuda.CUDAGraph, repeats: int) -> float:
    """Seconds a replay."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(repeats):
        graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / repeats


def seconds_of(work: Callable[[], Any], device: torch.device) -> float:
    """How long ``work`` takes by the clock on the wall, the device's part included."""
    synchronize(device)
    started = time.perf_counter()
    work()
    synchronize(device)
    return time.perf_counter() - started


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
