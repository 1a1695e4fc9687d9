"""Where a model would run, and how much memory is free there.

The choice is the engine's own: ``auto`` takes CUDA where torch sees a GPU. A GPU that is in the machine and that torch
does not see is worth a word: nothing else would say it.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from rich.filesize import decimal

from kvtop.doctor.finding import Finding

if TYPE_CHECKING:
    import torch

_GPU_FILES = (Path("/dev/nvidia0"), Path("/dev/kfd"))
"""There is a driver's device file where there is a GPU, NVIDIA's or AMD's."""


def device_finding(wanted: str) -> Finding:
    """``wanted`` is the setting: auto, cpu or cuda."""
    import torch

    built = "sees no GPU" if torch.version.cuda or torch.version.hip else "is built without CUDA"
    if wanted != "cpu" and torch.cuda.is_available():
        return _gpu()
    if wanted == "cuda":
        return Finding("device", "fail", f"cuda was asked for, and torch {built}", "--device cpu, or auto")
    if wanted == "auto" and any(file.exists() for file in _GPU_FILES):
        return Finding("device", "warn", f"{_cpu()}; there is a GPU, but torch {built}", "install torch for your GPU")
    return Finding("device", "ok", _cpu())


def chosen_device(wanted: str) -> torch.device:
    """What :func:`device_finding` tells of; a CPU where CUDA was asked for in vain."""
    import torch

    return torch.device("cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu")


def _gpu() -> Finding:
    import torch

    free, total = torch.cuda.mem_get_info()
    name = torch.cuda.get_device_name()
    figures = {"free_bytes": float(free), "total_bytes": float(total)}
    return Finding("device", "ok", f"cuda: {name}, {decimal(free)} of {decimal(total)} free", figures=figures)


def _cpu() -> str:
    import torch

    memory = psutil.virtual_memory()
    kind = torch.backends.cpu.get_cpu_capability()
    return (
        f"cpu: {platform.machine()} {kind}, {torch.get_num_threads()} threads on {os.cpu_count()} cores, "
        f"{decimal(memory.available)} of {decimal(memory.total)} free"
    )
