"""Do the kernels agree with float64 on this card? The tests' own problems, in every dtype, and some of a real size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context

import torch

from benchmarks.gpu.scale import Scale
from kvtop.kernels.agreement import TOLERANCE, Case, worst_difference
from kvtop.kernels.triton_kernels import TritonKernels
from tests.kernels.cases import DECODE, PREFILL, TOGETHER

Run = Callable[[Callable[..., object], Iterable[tuple[object, ...]]], list[object]]
"""Calls a function with each of several argument lists."""

LARGE = [
    Case("128 decodes", tuple((1, 17 + 31 * index) for index in range(128)), kv_heads=8, key_dim=128, value_dim=128),
    Case("a decode of 32k", ((1, 32768),), kv_heads=2, key_dim=128, value_dim=128),
    Case("a prompt of 2,000", ((1, 700), (2000, 2000)), kv_heads=1, key_dim=128, value_dim=128),
    Case("gpt-oss", ((1, 900), (1, 60), (200, 1000)), group=8, window=128, sinks=True),
    Case("Gemma 2", ((1, 900), (200, 600)), group=2, key_dim=256, value_dim=256, window=512, softcap=50.0),
    Case("Llama 4", ((1, 900), (300, 1000)), kv_heads=1, group=5, key_dim=128, value_dim=128, chunk=512),
]


@contextmanager
def workers(scale: Scale) -> Iterator[Run]:
    """Run a function over several argument lists, each in one of ``scale.workers`` processes: compiling is what takes
    long. An exception becomes its text."""
    if not scale.workers:
        yield lambda function, lists: [_guarded(function, arguments) for arguments in lists]
        return
    with ProcessPoolExecutor(scale.workers, mp_context=get_context("spawn")) as pool:
        yield lambda function, lists: [
            job.result() for job in [pool.submit(_guarded, function, arguments) for arguments in lists]
        ]


def _guarded(function: Callable[..., object], arguments: tuple[object, ...]) -> object:
    try:
        return function(*arguments)
    except Exception as error:  # a card may refuse a shape in many ways; which one is the result
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def agreement(scale: Scale, device: torch.device, run: Run) -> list[dict[str, object]]:
    """A row a problem and dtype: the largest error, and what rounding explains."""
    cases = [*DECODE, *PREFILL, *TOGETHER][:: scale.agreement_every]
    asked = [replace(case, dtype=dtype) for dtype in scale.agreement_dtypes for case in _distinct(cases)]
    if scale.workers:
        asked += [replace(case, dtype=torch.bfloat16) for case in LARGE]
    errors = run(worst, [(case, str(device)) for case in asked])
    rows = []
    for case, error in zip(asked, errors, strict=True):
        limit = TOLERANCE[case.dtype]
        agrees = isinstance(error, float) and error <= limit
        dtype = str(case.dtype).removeprefix("torch.")
        rows.append({"problem": case.name, "dtype": dtype, "error": error, "limit": limit, "agrees": agrees})
    return rows


def worst(case: Case, device: str) -> float:
    """In a worker: the largest error of the Triton kernels."""
    place = torch.device(device)
    return worst_difference(TritonKernels(place, max_num_seqs=len(case.lens)), case, place)


def _distinct(cases: list[Case]) -> list[Case]:
    """Without those that differ in the dtype alone, which is set anew."""
    return [case for case in cases if case.dtype == torch.float32]
