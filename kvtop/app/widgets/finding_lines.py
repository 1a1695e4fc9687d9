"""One finding in lines: the headline with its time, the evidence, what to do."""

from __future__ import annotations

from rich.style import Style

from kvtop.app.lines import Line, between, wrapped
from kvtop.app.palette import Palette
from kvtop.view.finding import Finding


def standing_lines(finding: Finding, since: str, palette: Palette, width: int, step: int = 0) -> list[Line]:
    """A finding that stands, since when in the caller's words; ``step`` is the one that is shown, if there are any."""
    named, case = palette.named, finding.case
    blank: Style = named.text
    style = {"problem": named.bad, "warning": named.warning}.get(case.weight, named.accent)
    advice = wrapped(case.advice, named.accent, width - 6)
    return [
        between(((" ● ", style), (case.headline, named.strong)), ((f"{since} ", named.muted),), width, blank),
        *((("   ", blank), *line) for line in wrapped(finding.evidence_at(step), named.text, width - 4)),
        (("   → ", named.accent), *advice[0]),
        *((("     ", blank), *line) for line in advice[1:]),
    ]


def past_line(finding: Finding, when: str, palette: Palette, width: int) -> Line:
    """One that has passed, and when, in the caller's words."""
    named = palette.named
    words = ((" ✓ ", named.good), (finding.case.headline, named.muted))
    return between(words, ((f"{when} ", named.muted),), width, named.text)
