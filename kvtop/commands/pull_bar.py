"""A progress bar on stderr for what the model store reports: bytes where a total is known, a pulse where not.

Nothing appears when nothing is reported, so a model that is already there costs no line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kvtop.models.progress import Report
from kvtop.view.clean import clean_line


@contextmanager
def pull_bar() -> Iterator[Report]:
    """A report function whose bar lives as long as the context."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        DownloadColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True, highlight=False),
    )
    tasks: dict[str, TaskID] = {}

    def report(detail: str, done: float, total: float) -> None:
        if detail not in tasks:
            for earlier in tasks.values():
                bar.stop_task(earlier)
            if not tasks:
                bar.start()
            tasks[detail] = bar.add_task(clean_line(detail), total=total or None)
        bar.update(tasks[detail], completed=done, total=total or None)

    try:
        yield report
    finally:
        if tasks:
            bar.stop()
