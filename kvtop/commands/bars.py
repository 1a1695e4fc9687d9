"""What a command shows on stderr while it works: a bar on a terminal, plain lines where stderr is a file or a pipe.

A bar goes away when its work is done, since what it led to is printed; nothing appears when nothing is reported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

from kvtop.models.progress import Report
from kvtop.view.clean import clean_line

_REDRAW_SECONDS = 0.1


@contextmanager
def stage_bar() -> Iterator[Report]:
    """A report function for work in stages: one bar that names the stage, or one line a stage."""
    console = Console(stderr=True, highlight=False)
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TaskProgressColumn(text_format_no_percentage=""),
        console=console,
        transient=True,
    )
    stage = ""

    def report(detail: str, done: float, total: float) -> None:
        nonlocal stage
        changed, stage = detail != stage, detail
        if not console.is_terminal:
            if changed:
                console.print(clean_line(detail), markup=False)
            return
        bar.start()
        if changed:  # a new task, since a bar that has had a total can't lose it
            for earlier in bar.task_ids:
                bar.remove_task(earlier)
            bar.add_task(clean_line(detail), total=total or None)
        bar.update(bar.task_ids[0], completed=done, total=total or None)

    try:
        yield report
    finally:
        if bar.task_ids:
            bar.stop()


@contextmanager
def count_bar(total: int, words: str) -> Iterator[Callable[[int, str], None]]:
    """A function of (how many of ``total`` are done, figures as text). It may be called as often as one likes."""
    console = Console(stderr=True, highlight=False)
    bar = Progress(
        TextColumn(f"{words} {{task.completed:,}}/{{task.total:,}}", markup=False),
        BarColumn(bar_width=30),
        TimeElapsedColumn(),
        TextColumn("{task.fields[figures]}", markup=False),
        console=console,
        transient=True,
    )
    drawn = 0.0

    def update(done: int, figures: str) -> None:
        nonlocal drawn
        now = time.monotonic()
        if now - drawn >= _REDRAW_SECONDS:
            drawn = now
            bar.update(task, completed=done, figures=clean_line(figures))

    if not console.is_terminal:
        yield lambda done, figures: None
        return
    with bar:
        task = bar.add_task("", total=total, figures="")
        yield update
