"""Work in a child process that can be interrupted, reports how far it is, and never outlives its parent.

The parent holds one end of a pipe that is the child's stdin; when the parent is gone, however it went, the pipe closes
and the child ends. Started as ``python -m kvtop.models.child MODULE ARGUMENT...``, it runs MODULE as a program.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvtop.models.progress import Report, run_watched


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended, and what it said."""

    code: int
    stdout: str
    stderr: str


def run_child(
    module: str,
    arguments: Sequence[str],
    *,
    folder: Path,
    total_bytes: float,
    detail: str,
    report: Report,
    environ: Mapping[str, str] = os.environ,
) -> Ended:
    """Run ``module`` to its end, reporting how many of ``total_bytes`` (0: unknown) ``folder`` holds meanwhile.

    Whatever ends this call early, an interrupt too, ends the child.
    """
    theirs, ours = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "kvtop.models.child", module, *arguments],
        env=environ,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    os.close(theirs)
    said: list[str] = []
    try:
        run_watched(lambda: said.extend(process.communicate()), folder, total_bytes, detail, report)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)
    return Ended(process.returncode, *said)


def _end_with_parent() -> None:
    os.read(0, 1)  # nothing is ever written: this returns when the parent's end closes
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
