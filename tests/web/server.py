"""``kvtop web`` as a process of its own, for the tests that open its page with or without a browser."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from types import TracebackType

import psutil


class Served:
    """``address`` is what it printed. Everything it started is known by ``family``."""

    def __init__(self, *arguments: str, cwd: str | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kvtop", "web", "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": os.getcwd()},
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        assert self.address, self._process.communicate()[1]
        self.pid = self._process.pid

    def family(self) -> list[psutil.Process]:
        """Every process that it started, and those started."""
        return psutil.Process(self.pid).children(recursive=True)

    def end(self, number: int) -> int:
        """Send a signal and wait; the exit status."""
        if self._process.poll() is None:
            self._process.send_signal(number)
        return self._process.wait(30)

    def __enter__(self) -> Served:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end(15)
        self._process.communicate()


def gone(processes: list[psutil.Process], seconds: float = 15) -> bool:
    """Whether all of them end in time."""
    until = time.monotonic() + seconds
    while any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
