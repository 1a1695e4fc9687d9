"""A benchmark's ratios as bars in SVG, with a mark where "at least" is, and when and where it was run."""

from __future__ import annotations

import datetime
import platform
from html import escape
from pathlib import Path

from benchmarks.cpu.rounds import Row

WIDTH, LEFT, RIGHT, BAR, GAP = 860, 330, 70, 20, 10


def draw(path: Path, title: str, setting: str, rows: list[Row]) -> None:
    """Write the chart. ``setting`` names model, dtype, threads and versions; date and processor are added."""
    longest = max(max(row.compared.ratio, row.at_least) for row in rows)
    scale = (WIDTH - LEFT - RIGHT) / longest
    height = 70 + len(rows) * (BAR + GAP) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="13" fill="#333">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="16" y="26" font-size="16" font-weight="bold">{escape(title)}</text>',
        f'<text x="16" y="46" fill="#777">{escape(setting)}</text>',
    ]
    for index, row in enumerate(rows):
        top = 66 + index * (BAR + GAP)
        ratio = row.compared.ratio
        mark = LEFT + row.at_least * scale
        colour = "#2b7a78" if ratio >= row.at_least else "#b5533c"
        parts += [
            f'<text x="{LEFT - 10}" y="{top + 15}" text-anchor="end">{escape(row.name)}</text>',
            f'<rect x="{LEFT}" y="{top}" width="{ratio * scale:.1f}" height="{BAR}" fill="{colour}"/>',
            f'<path d="M{mark:.1f} {top - 3}V{top + BAR + 3}" stroke="#333" stroke-width="2"/>',
            f'<text x="{LEFT + ratio * scale + 8:.1f}" y="{top + 15}">{ratio:.2f}×</text>',
        ]
    place = f"{datetime.date.today().isoformat()} · {escape(_processor())}"
    legend = "times as fast as the other; the line is the least expected"
    parts += [f'<text x="16" y="{height - 14}" fill="#777">{place} · {legend}</text>', "</svg>"]
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
