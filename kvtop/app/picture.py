"""The screen as an SVG that every renderer shows alike.

Rich lets a run of text begin with its blanks, as no-break spaces; some renderers swallow them and stretch the rest over
the run's whole width. Here each run begins at its first visible character and ends at its last.
"""

from __future__ import annotations

import html
import re

from kvtop.view.clean import width

_RUN = re.compile(r'<text (class="[^"]*") x="([\d.]+)" (y="[\d.]+") textLength="([\d.]+)"([^>]*)>([^<]*)</text>')


def with_exact_runs(svg: str) -> str:
    """``svg``, as Rich exports it, with each text run cut to what is visible of it."""
    return _RUN.sub(_exact, svg)


def _exact(run: re.Match[str]) -> str:
    style, x, y, length, rest, escaped = run.groups()
    text = html.unescape(escaped).replace("\xa0", " ")
    shown = text.strip()
    if not shown:
        return ""
    cell = float(length) / width(text)
    start = float(x) + (len(text) - len(text.lstrip())) * cell
    words = html.escape(shown).replace(" ", "&#160;")
    return f'<text {style} x="{start:.1f}" {y} textLength="{width(shown) * cell:.1f}"{rest}>{words}</text>'
