"""kvtop sim --from: the traffic of a recording or a workload file, under other settings.

A recording gives three kinds of rows: what was recorded, the same simulated (how far the simulation can be trusted),
and what would have been. A workload file gives only the last.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from kvtop.commands.bars import count_bar
from kvtop.commands.record_output import say_cut
from kvtop.commands.table_output import table_console
from kvtop.engine.cost import CARDS, DEFAULT_CARD
from kvtop.engine.events import EngineInfo
from kvtop.engine.workload import read_workload
from kvtop.failure import WrongUsage
from kvtop.lab.presets import MOST_LANES, Preset
from kvtop.lab.traffic import Traffic
from kvtop.lab.what_if import WORKLOAD_INFO, changed, simulate
from kvtop.lab.what_if_preset import Changes, hear, tries, usual_tries, what_if_preset
from kvtop.view.clean import clean_line

Row = dict[str, Any]


def what_if_rows(source: Path, values: Mapping[str, Sequence[Any]]) -> list[Row]:
    """``source`` as it was, and under every combination of ``values`` (lists, by setting).

    Raises:
        Failure: it cannot be read, or holds no request.
        WrongUsage: a combination is impossible.
    """
    traffic, rows = _read(source)
    info = traffic.info or WORKLOAD_INFO
    tried: list[tuple[Changes, EngineInfo]] = []
    for changes in tries(values, with_unchanged=traffic.info is not None):
        try:
            tried.append((changes, changed(info, changes)))
        except ValueError as error:
            raise WrongUsage(str(error)) from None
    total = len(traffic.requests)
    with count_bar(len(tried) * total, "requests") as update:
        for number, (changes, new) in enumerate(tried):

            def report(ended: int, before: int = number * total) -> None:
                update(before + ended, "")

            figures = simulate(traffic, new, CARDS[DEFAULT_CARD], report)
            rows.append({"run": "what if" if changes else "simulated", "changed": changes, **figures})
    return rows


def what_if_live(source: Path, values: Mapping[str, Sequence[Any]]) -> Preset:
    """The same for the lab's screen.

    Raises:
        Failure: it cannot be read, or holds no request.
        WrongUsage: a combination is impossible, or there are more than fit side by side.
    """
    traffic, _ = _read(source)
    info = traffic.info or WORKLOAD_INFO
    wanted = list(tries(values, with_unchanged=traffic.info is not None)) if values else usual_tries(info)
    if len(wanted) > MOST_LANES:
        raise WrongUsage(
            f"--live shows up to {MOST_LANES} side by side, these flags make {len(wanted)}; leave some values out"
        )
    try:
        preset = what_if_preset(clean_line(source.name, 40), traffic, info, wanted)
    except ValueError as error:
        raise WrongUsage(str(error)) from None
    preset.build()  # refuses here what cannot run, and not on the screen
    return preset


def _read(source: Path) -> tuple[Traffic, list[Row]]:
    """The traffic, and the row of what was recorded, if anything was."""
    if source.suffix == ".json":
        return Traffic(read_workload(source), {}), []
    from kvtop.sources.recording import Recording

    with Recording(source) as recording:
        if recording.lost_bytes:
            say_cut(recording)
        traffic, meter = hear(recording.timeline)
    if traffic.left_out:
        print(f"kvtop: warning: {traffic.left_out:,} rejected requests are left out", file=sys.stderr)
    return traffic, [{"run": "recorded", "changed": {}, **meter.figures()}]


_COLUMNS = (
    ("mean\nrunning", "mean_running", ".1f", False),
    ("held\nin use", "kv_utilization", ".1%", False),
    ("steps", "steps", ",", True),
    ("preempted", "preemptions", ",", False),
    ("recomputed\ntokens", "recomputed_tokens", ",", True),
    ("prefix hit\ntokens", "prefix_hit_tokens", ",", True),
    ("wait p95\nsteps", "wait_p95_steps", ",", False),
    ("stall p95\nsteps", "stall_p95_steps", ",", False),
)
"""Title, figure, its format, and whether only a wide terminal shows it."""
_WIDE = 100


def print_what_if(rows: Sequence[Row]) -> None:
    """The rows as a table, to stdout."""
    console = table_console()
    columns = [column for column in _COLUMNS if console.width >= _WIDE or not column[3]]
    table = Table(box=None, pad_edge=False)
    table.add_column("run")
    for title, *_ in columns:
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        shown = ("–" if row[name] is None else format(row[name], form) for _, name, form, _ in columns)
        table.add_row(_label(row), *shown)
    console.print(table)


def _label(row: Row) -> str:
    changes = (f"{name.replace('_', ' ')} {value}" for name, value in row["changed"].items())
    return ", ".join([row["run"], *changes])
