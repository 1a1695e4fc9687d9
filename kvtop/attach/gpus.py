"""Memory and load of this machine's GPUs, where NVML can be read (the package nvidia-ml-py is optional).

They are looked at in a thread of their own, since a driver can hang; what is not known is no entry, never 0. NVML tells
of this machine only, so it says something about servers that run here.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kvtop.attach.targets import Target

LOOK_SECONDS = 2.0
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class Gpu:
    index: int
    name: str
    """As the driver calls it."""
    used_bytes: int
    total_bytes: int
    load: float | None
    """Share of time in which it computed."""


def is_here(target: Target) -> bool:
    """Whether a server runs on this machine, as far as its address tells."""
    return target.host in (*_LOOPBACK, socket.gethostname())


class GpuWatch:
    """``gpus`` holds what was seen last; empty where nothing can be seen."""

    def __init__(self) -> None:
        self.gpus: Sequence[Gpu] = ()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._look, name="gpus", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()

    def _look(self) -> None:
        try:
            import pynvml
        except ImportError:
            return
        try:
            pynvml.nvmlInit()
            while not self._closing.is_set():
                self.gpus = read_gpus(pynvml)
                self._closing.wait(LOOK_SECONDS)
        except pynvml.NVMLError:
            self.gpus = ()
        finally:
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()


def read_gpus(nvml: Any) -> list[Gpu]:
    """All GPUs that NVML tells of. Raises its NVMLError."""
    found = []
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        try:
            load = nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
        except nvml.NVMLError:  # a slice of a GPU does not tell it
            load = None
        found.append(Gpu(index, str(nvml.nvmlDeviceGetName(handle)), int(memory.used), int(memory.total), load))
    return found
