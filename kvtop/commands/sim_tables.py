"""The lab's rows as tables and a bar chart, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.bar import Bar
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kvtop.commands.table_output import table_console
from kvtop.lab.combinations import varying
from kvtop.lab.labels import experiment_label
from kvtop.lab.runs import Outcome

_PUBLISHED_NOTE = (
    "The published program's rule, its fault included: a request preempted earlier in a step still asks for its "
    "blocks, and throws out further ones for nothing."
)
_BAR_CELLS = 30
_WIDE = 100
"""Columns of a terminal that has room for every figure."""


def print_outcomes(outcomes: Sequence[Outcome], published: bool) -> None:
    """Everything there is to say about the rows, to stdout."""
    console = table_console()
    extra = varying([outcome.experiment for outcome in outcomes])
    labels = [experiment_label(outcome.experiment, extra) for outcome in outcomes]
    parts: list[RenderableType] = [_figures(outcomes, labels, console.width >= _WIDE), Text(), _chart(outcomes, labels)]
    if outcomes[0].price is not None:
        parts += [Text(), _costs(outcomes, labels)]
    if published:
        parts += [Text(), Text(_PUBLISHED_NOTE, style="dim")]
    console.print(Group(*parts))


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("policy")
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def _figures(outcomes: Sequence[Outcome], labels: Sequence[str], wide: bool) -> Table:
    titles = ["mean\nrunning", "held\nin use", "steps", "preempted", "recomputed\ntokens"]
    table = _table(*titles, *(["total work\ntokens"] if wide else []))
    for outcome, label in zip(outcomes, labels, strict=True):
        figures = outcome.figures
        counts = ["steps", "preemptions", "recomputed_tokens", *(["total_work_tokens"] if wide else [])]
        table.add_row(
            label,
            f"{figures['mean_running']:,.0f}",
            f"{figures['kv_utilization']:.1%}",
            *(f"{figures[name]:,}" for name in counts),
        )
    return table


def _chart(outcomes: Sequence[Outcome], labels: Sequence[str]) -> Table:
    """Mean running, a bar a row."""
    largest = max(outcome.figures["mean_running"] for outcome in outcomes) or 1
    chart = Table(box=None, pad_edge=False, show_header=False, title="mean running", title_justify="left")
    chart.add_column()
    chart.add_column()
    chart.add_column(justify="right")
    for outcome, label in zip(outcomes, labels, strict=True):
        running = outcome.figures["mean_running"]
        chart.add_row(label, Bar(largest, 0, running, width=_BAR_CELLS), f"{running:,.1f}")
    return chart


def _costs(outcomes: Sequence[Outcome], labels: Sequence[str]) -> Table:
    table = _table("seconds", "goodput\ntok/s", "recompute\ns", "or swap\ns", "stalls", "p50\ns", "p95\ns", "max\ns")
    for outcome, label in zip(outcomes, labels, strict=True):
        price = outcome.price
        assert price is not None
        charged = "charged" if price.recompute_charged else "not charged"
        table.title = f"cost on {price.card}, recompute {charged}"
        table.title_justify = "left"
        table.add_row(
            label,
            f"{price.seconds:,.0f}",
            f"{price.goodput_tokens_per_s:,.0f}",
            f"{price.recompute_seconds:,.1f}",
            f"{price.swap_seconds:,.1f}",
            f"{price.stalls:,}",
            *(_seconds(value) for value in (price.stall_p50_s, price.stall_p95_s, price.stall_max_s)),
        )
    return table


def _seconds(value: Any) -> str:
    return "–" if value is None else f"{value:.2f}"
