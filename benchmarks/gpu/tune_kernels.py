"""Try the attention kernels' shapes on this card; the best rows are for ``kvtop/kernels/triton_tuning.py``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import product
from typing import TypeVar

import torch

from benchmarks.gpu import attention
from benchmarks.gpu.check_kernels import Run
from benchmarks.gpu.scale import Scale
from benchmarks.gpu.timing import seconds_per_launch
from kvtop.kernels.triton_tuning import (
    DecodeTuning,
    PrefillTuning,
    architecture,
    decode_tuning,
    prefill_tuning,
)

PAGE = 16
Tuning = TypeVar("Tuning", DecodeTuning, PrefillTuning)


def decode_choices(now: DecodeTuning) -> list[DecodeTuning]:
    """What is worth compiling beside the table's row. ``num_stages`` 2, 3, 5: one, two and four tiles held."""
    shapes = product((32, 64, 128), (4, 8), (2, 3, 5))
    return [now] + [
        replace(now, tile=tile, num_warps=warps, num_stages=stages)
        for tile, warps, stages in shapes
        if (tile, warps, stages) != (now.tile, now.num_warps, now.num_stages)
    ]


def prefill_choices(now: PrefillTuning) -> list[PrefillTuning]:
    shapes = product((64, 128), (32, 64, 128), (4, 8), (2, 3))
    return [now] + [
        replace(now, rows=rows, tile=tile, num_warps=warps, num_stages=stages)
        for rows, tile, warps, stages in shapes
        if (rows, tile, warps, stages) != (now.rows, now.tile, now.num_warps, now.num_stages)
    ]


def tune_decode(scale: Scale, storage: attention.Storage, run: Run) -> list[dict[str, object]]:
    """Rows of (tuning, share of the best time at each point), best first. The splits' size is tried on the best."""
    now = decode_tuning(architecture(storage.device), scale.model.dtype, scale.model.head_dim)
    choices = decode_choices(now) if scale.workers else [now]
    choices = _compiled(choices, run(compile_decode, [(scale, str(storage.device), choice) for choice in choices]))

    def seconds(tuning: DecodeTuning, point: tuple[int, int]) -> float:
        measured = attention.decode(storage, *point, PAGE, tuning, scale.cold_bytes)
        return seconds_per_launch(measured.launches, storage.device, scale.timing_seconds)

    first = _ranked(choices, scale.tuning_points, seconds)
    best = first[0][0]
    more = [
        replace(best, programs_per_sm=programs, min_split=split)
        for programs, split in product((2, 3, 4, 6), (128, 256, 512))
        if split % best.tile == 0 and (programs, split) != (best.programs_per_sm, best.min_split)
    ]
    return _rows(_ranked([best, *more], scale.tuning_points, seconds) + first[1:] if scale.workers else first, now)


def tune_prefill(scale: Scale, storage: attention.Storage, run: Run) -> list[dict[str, object]]:
    """Rows of (tuning, time), best first."""
    now = prefill_tuning(architecture(storage.device), scale.model.dtype, scale.model.head_dim)
    choices = prefill_choices(now) if scale.workers else [now]
    choices = _compiled(choices, run(compile_prefill, [(scale, str(storage.device), choice) for choice in choices]))

    def seconds(tuning: PrefillTuning, point: tuple[int, int]) -> float:
        measured = attention.prefill(storage, *point, PAGE, tuning)
        return seconds_per_launch(measured.launches, storage.device, scale.timing_seconds)

    return _rows(_ranked(choices, (scale.prefill_tokens,), seconds), now)


def compile_decode(scale: Scale, device: str, tuning: DecodeTuning) -> None:
    """In a worker: leave the kernel in the compiler's cache, or raise what the card says of it."""
    storage = attention.Storage.allocate(scale.model, 8 * PAGE, torch.device(device))
    attention.decode(storage, 1, 2 * PAGE, PAGE, tuning).launches[0]()


def compile_prefill(scale: Scale, device: str, tuning: PrefillTuning) -> None:
    storage = attention.Storage.allocate(scale.model, 8 * PAGE, torch.device(device))
    attention.prefill(storage, PAGE, PAGE, PAGE, tuning).launches[0]()


def _compiled(choices: list[Tuning], said: list[object]) -> list[Tuning]:
    """Those that the card takes; the table's row must be among them."""
    if isinstance(said[0], str):
        raise RuntimeError(f"the card refuses the table's own row, {choices[0]}: {said[0]}")
    return [choice for choice, error in zip(choices, said, strict=True) if error is None]


def _ranked(
    choices: list[Tuning], points: tuple[tuple[int, int], ...], seconds: Callable[[Tuning, tuple[int, int]], float]
) -> list[tuple[Tuning, list[float]]]:
    """Sorted by the geometric mean over the points."""
    timed = [(choice, [seconds(choice, point) for point in points]) for choice in choices]
    return sorted(timed, key=lambda entry: math.prod(entry[1]))


def _rows(ranked: list[tuple[Tuning, list[float]]], now: Tuning) -> list[dict[str, object]]:
    return [
        {"tuning": asdict(tuning), "microseconds": [1e6 * time for time in times], "in_use": tuning == now}
        for tuning, times in ranked
    ]
