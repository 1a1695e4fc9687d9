"""A fleet as it is printed: JSON for programs, a table for people. What is not known is null, and – in the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from kvtop.attach.histogram import Histogram
from kvtop.commands.table_output import table_console
from kvtop.view import fleet_words as words
from kvtop.view.finding import Case
from kvtop.view.fleet import LATENCIES, LENGTHS, FleetRow, FleetTotal
from kvtop.view.fleet_findings import where

QUANTILES = (0.5, 0.9, 0.95, 0.99)


def fleet_as_json(
    rows: Sequence[FleetRow],
    deep: Sequence[Mapping[str, Any]],
    total: FleetTotal,
    findings: Mapping[str, Case],
    at_s: float,
) -> dict[str, Any]:
    """One look at a fleet. Times in seconds, shares from 0 to 1, rates over ``span_s``. ``deep``: what is told of each
    row beyond its metrics."""
    return {
        "at": at_s,
        "ranks": [{**_as_json(row), "is_stale": row.is_stale, **more} for row, more in zip(rows, deep, strict=True)],
        "total": _as_json(total),
        "findings": [{"key": key, **_case_as_json(case)} for key, case in findings.items()],
    }


def _as_json(subject: FleetRow | FleetTotal) -> dict[str, Any]:
    shown = {name: value for name, value in asdict(subject).items() if name != "histograms"}
    latencies = {f"{name}_s": _quantiles(subject.histograms.get(name)) for name in LATENCIES}
    lengths = {f"{name}_tokens": _quantiles(subject.histograms.get(name)) for name in LENGTHS}
    return shown | latencies | lengths


def _case_as_json(case: Case) -> dict[str, str]:
    return {"weight": case.weight, "headline": case.headline, "evidence": case.evidence, "advice": case.advice}


def _quantiles(histogram: Histogram | None) -> dict[str, Any] | None:
    """Quantiles over the window; those in ``beyond`` lie beyond the server's last bucket, so they are at least that."""
    if histogram is None:
        return None
    found = {f"p{round(100 * share)}": histogram.quantile(share) for share in QUANTILES}
    return {
        "count": histogram.count,
        **{name: quantile.value if quantile else None for name, quantile in found.items()},
        "beyond": [name for name, quantile in found.items() if quantile and quantile.beyond],
    }


def print_fleet(
    rows: Sequence[FleetRow], deep: Sequence[Sequence[str]], total: FleetTotal, findings: Mapping[str, Case]
) -> None:
    """The table, to stdout, what was heard beyond metrics, and the findings below it."""
    console = table_console()
    table = Table(box=None, pad_edge=False)
    table.add_column("server", no_wrap=True, overflow="ellipsis", min_width=8)
    for title in ("rank", "state", "usage", "run", "wait", "preempt/min", "hit", "in/s", "out/s"):
        table.add_column(title, no_wrap=True, justify="left" if title == "state" else "right")
    table.add_column("ttft p50 p95", no_wrap=True, justify="right")
    table.add_column("token p50 p95", no_wrap=True, justify="right")
    for row in rows:
        dim = "dim" if row.is_stale else ""
        table.add_row(Text(row.server), Text(row.rank), words.state(row), *_figures(row), style=dim)
    if len(rows) > 1:
        table.add_row(f"{total.ranks} ranks", "", "", *_figures(total), style="bold")
    console.print(table)
    if len(rows) > 1:
        left = f"; {total.left_out} stale or silent, left out" if total.left_out else ""
        console.print(
            Text(f"requests, tokens and preemptions are summed, usage is {total.usage_how}{left}"), style="dim"
        )
    for row, lines in zip(rows, deep, strict=True):
        for line in lines:
            console.print(Text(f"{where(row)}: {line}"))
    for case in findings.values():
        console.print(Text(f"• {case.headline}: {case.evidence}. {case.advice}."))


def _figures(subject: FleetRow | FleetTotal) -> list[str]:
    return [
        words.share(subject.usage),
        words.number(subject.running),
        words.number(subject.waiting),
        words.number(subject.preemptions_per_min, 1),
        words.share(subject.hit_rate),
        words.number(subject.prompt_tokens_per_s),
        words.number(subject.generated_tokens_per_s),
        f"{words.time(subject.quantile('ttft', 0.5))} {words.time(subject.quantile('ttft', 0.95))}",
        f"{words.time(subject.quantile('inter_token', 0.5))} {words.time(subject.quantile('inter_token', 0.95))}",
    ]
