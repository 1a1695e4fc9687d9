"""A benchmark as bars in SVG, each with a mark where the limit is, and when and where it was run."""

from __future__ import annotations

import datetime
import platform
from dataclasses import dataclass
from html import escape
from pathlib import Path

from benchmarks.cpu.rounds import Row

WIDTH, LEFT, RIGHT, BAR, GAP = 860, 330, 150, 20, 10
NEAR = 60
"""A mark so near behind the end of its bar would cross the figure: that stands behind the mark then."""


@dataclass(slots=True, frozen=True)
class Bar:
    """``length`` and ``limit`` are in one unit, which all bars of a chart share; ``text`` says the figure itself."""

    name: str
    length: float
    limit: float
    text: str
    holds: bool
    """The figure is on the right side of its limit."""


def ratio_bars(rows: list[Row]) -> list[Bar]:
    """Bars as long as ratios, with marks at the least that is expected."""
    return [
        Bar(row.name, row.compared.ratio, row.at_least, f"{row.compared.ratio:.2f}×",
            row.compared.ratio >= row.at_least)
        for row in rows
    ]  # fmt: skip


def budget_bar(name: str, value: float, most: float, text: str) -> Bar:
    """A bar as long as the share of ``most`` that ``value`` takes; the mark is at all of it."""
    return Bar(name, value / most, 1, text, value <= most)


RATIOS = "times as fast as the other; the line is the least expected"
BUDGETS = "share of what is allowed; the line is all of it"


def draw(path: Path, title: str, setting: str, bars: list[Bar], legend: str) -> None:
    """Write the chart. ``setting`` names what was run and its versions; date, processor and Python are added."""
    scale = (WIDTH - LEFT - RIGHT) / max(max(bar.length, bar.limit) for bar in bars)
    height = 70 + len(bars) * (BAR + GAP) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="13" fill="#333">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="16" y="26" font-size="16" font-weight="bold">{escape(title)}</text>',
        f'<text x="16" y="46" fill="#777">{escape(setting)}</text>',
    ]
    for index, bar in enumerate(bars):
        top = 66 + index * (BAR + GAP)
        mark = LEFT + bar.limit * scale
        colour = "#2b7a78" if bar.holds else "#b5533c"
        end = LEFT + bar.length * scale
        after = 8 + (mark if end < mark < end + NEAR else end)
        parts += [
            f'<text x="{LEFT - 10}" y="{top + 15}" text-anchor="end">{escape(bar.name)}</text>',
            f'<rect x="{LEFT}" y="{top}" width="{bar.length * scale:.1f}" height="{BAR}" fill="{colour}"/>',
            f'<path d="M{mark:.1f} {top - 3}V{top + BAR + 3}" stroke="#333" stroke-width="2"/>',
            f'<text x="{after:.1f}" y="{top + 15}">{escape(bar.text)}</text>',
        ]
    place = f"{datetime.date.today().isoformat()} · {_processor()} · Python {platform.python_version()}"
    parts += [f'<text x="16" y="{height - 14}" fill="#777">{escape(f"{place} · {legend}")}</text>', "</svg>"]
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
