"""Figures of the run in a lesson's words: ``{blocks("a")}`` in a text stands for what the formula is worth now.

So a text speaks of this run and never of the one its author had. What is not known yet reads "–".
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kvtop.lessons.expression import Expression, FactSource

UNKNOWN = "–"
_PLACE = re.compile(r"\{([^{}]*)\}")


def check_figures(text: str, formula: Callable[[str], Expression]) -> set[str]:
    """The requests that the figures in ``text`` ask about.

    Raises:
        ValueError: something in braces is no formula; the message says which.
    """
    return {request for place in _PLACE.findall(text) for request in formula(place).request_ids}


def with_figures(text: str, formula: Callable[[str], Expression], facts: FactSource | None) -> str:
    """``text`` with every formula worked out; ``facts`` is None before the engine is there."""

    def figure(place: re.Match[str]) -> str:
        asked = formula(place[1])
        if facts is None or not all(facts.knows(request_id) for request_id in asked.request_ids):
            return UNKNOWN
        return number(asked.value(facts))

    return _PLACE.sub(figure, text)


def number(value: float) -> str:
    """Whole numbers with thousands set apart, others with two decimals."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
