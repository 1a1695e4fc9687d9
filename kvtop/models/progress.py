"""How far long work has come: the one callback that pulls and conversions report through.

Whoever calls decides what a report becomes: a bar on stderr, a status line on the screen, or nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

Report = Callable[[str, float, float], None]
"""Called with (what is being done, done, total) in one unit; total 0: nobody knows."""

_POLL_SECONDS = 0.2


def no_report(detail: str, done: float, total: float) -> None:
    """The report nobody reads."""


def run_watched(work: Callable[[], object], folder: Path, total_bytes: float, detail: str, report: Report) -> None:
    """Run ``work`` in a thread and report, from the calling thread, how many of ``total_bytes`` ``folder`` holds so far
    (0: how much there will be is unknown).

    Raises:
        BaseException: what ``work`` raised. When the caller is interrupted, the thread is left behind; it is a daemon.
    """
    raised: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    while thread.is_alive():
        report(detail, min(_bytes_in(folder), total_bytes), total_bytes)
        thread.join(_POLL_SECONDS)
    if raised:
        raise raised[0]
    report(detail, total_bytes, total_bytes)


def _bytes_in(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except OSError:  # renamed or removed between listing and look
            continue
    return total
