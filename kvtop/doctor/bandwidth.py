"""How fast memory is: what bounds a decode step, which reads every weight and every key and value once.

Measured, not looked up: a buffer several times as large as all caches is read, and copied to another, by as many
threads as there are cores; the best of the tries within a fraction of a second counts, since other work only ever
slows one. A copy counts the bytes read and the bytes written. On a GPU the same with torch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import psutil
from rich.filesize import decimal

from kvtop.doctor.finding import Finding

if TYPE_CHECKING:
    import torch

Work = Callable[[], object]
Numbers = npt.NDArray[np.int64]

LEAST_BUFFER_BYTES = 256 << 20
GPU_BUFFER_BYTES = 1 << 30
TIMES_THE_CACHES = 4
TRY_SECONDS = 0.2
"""For reading, and again for copying."""
LEAST_TRIES = 3
_BUSY = "other work takes part of it: measure again when this machine is quiet"


def cpu_finding(weight_bytes: int, buffer_bytes: int | None = None) -> Finding:
    """``weight_bytes``: of the model to be run, 0 where that is unknown. ``buffer_bytes`` None: as the caches ask."""
    size = buffer_bytes or buffer_size(cache_bytes(), psutil.virtual_memory().available)
    load = os.getloadavg()[0]
    found = _measured(size, _cpu_work, weight_bytes)
    if found.state != "ok" or load <= (os.cpu_count() or 1) / 2:
        return found
    return replace(found, state="warn", value=f"{found.value}, at a load of {load:.1f}", advice=_BUSY)


def gpu_finding(weight_bytes: int) -> Finding:
    """As :func:`cpu_finding`."""
    return _measured(GPU_BUFFER_BYTES, _gpu_work, weight_bytes)


def _measured(size: int, make_work: Callable[[int], tuple[Work, Work]], weight_bytes: int) -> Finding:
    try:
        read, copy = make_work(size)
        read_rate, copy_rate = size / best_seconds(read), 2 * size / best_seconds(copy)
    except (MemoryError, RuntimeError):  # the second is torch's
        return Finding("memory bandwidth", "warn", "–", f"free some memory: {decimal(2 * size)} could not be had")
    value = f"measured: read {decimal(int(read_rate))}/s, copy {decimal(int(copy_rate))}/s, over {decimal(size)}"
    if weight_bytes:
        step_ms = 1e3 * weight_bytes / read_rate
        value += f"; a step, which reads {decimal(weight_bytes)} of weights, takes {step_ms:.3g} ms at least"
    figures = {"read_bytes_per_second": read_rate, "copy_bytes_per_second": copy_rate, "buffer_bytes": float(size)}
    return Finding("memory bandwidth", "ok", value, figures=figures)


def best_seconds(work: Work, least_seconds: float = TRY_SECONDS) -> float:
    """The shortest of ``LEAST_TRIES`` runs of ``work``, or more until they have taken ``least_seconds`` in all."""
    work()  # pages are mapped, clocks rise
    tries: list[float] = []
    while len(tries) < LEAST_TRIES or sum(tries) < least_seconds:
        started = time.perf_counter()
        work()
        tries.append(time.perf_counter() - started)
    return min(tries)


def buffer_size(caches: int, available: int) -> int:
    """Bytes of each of the two buffers: as the caches ask, within an eighth of the free memory."""
    return max(1 << 20, min(max(LEAST_BUFFER_BYTES, TIMES_THE_CACHES * caches), available // 8))


def cache_bytes(cpus: Path = Path("/sys/devices/system/cpu")) -> int:
    """All caches of the largest level together; 0 where the system does not tell."""
    found: dict[tuple[int, str], int] = {}
    for cache in cpus.glob("cpu[0-9]*/cache/index[0-9]*"):
        try:
            level = int((cache / "level").read_text())
            shared_by = (cache / "shared_cpu_list").read_text()
            found[level, shared_by] = int((cache / "size").read_text().strip().removesuffix("K")) << 10
        except (OSError, ValueError):
            continue
    largest = max((level for level, _ in found), default=0)
    return sum(size for (level, _), size in found.items() if level == largest)


def _cpu_work(size: int) -> tuple[Work, Work]:
    source, target = (np.ones(size // 8, dtype=np.int64) for _ in range(2))
    return on_every_core(source, target)


def on_every_core(source: Numbers, target: Numbers) -> tuple[Work, Work]:
    """Functions that read ``source``, and copy it to ``target``. NumPy lets other threads run in both."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parts = list(zip(np.array_split(source, threads), np.array_split(target, threads), strict=True))
    pool = ThreadPoolExecutor(threads)

    def read() -> int:
        return max(pool.map(lambda part: int(part[0].max()), parts))

    def copy() -> None:
        list(pool.map(lambda part: np.copyto(part[1], part[0]), parts))

    return read, copy


def _gpu_work(size: int) -> tuple[Work, Work]:
    import torch

    source, target = (torch.ones(size // 4, dtype=torch.float32, device="cuda") for _ in range(2))

    def wait_for(launch: Callable[[], torch.Tensor]) -> Work:
        def work() -> None:
            launch()
            torch.cuda.synchronize()

        return work

    return wait_for(source.sum), wait_for(lambda: target.copy_(source))
