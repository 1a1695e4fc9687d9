"""What latencies are good enough: limits a person sets (``ttft<1 inter_token<0.1``), and how many requests kept them.

A share is read off a histogram's buckets, so it is as fine as those are; where they end before the limit it is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kvtop.view.fleet import LATENCIES

_FORM = re.compile(r"([a-z_0-9]+)\s*<\s*([0-9]*\.?[0-9]+)\s*(ms|s)?")

Slo = Mapping[str, float]
"""Latency → the most it may take, in seconds."""


def parse_slo(text: str) -> dict[str, float]:
    """Limits from their text. Raises ValueError with what was expected."""
    limits: dict[str, float] = {}
    for word in re.sub(r"\s*<\s*", "<", text).replace(",", " ").split():
        match = _FORM.fullmatch(word)
        if match is None or match[1] not in LATENCIES or not float(match[2]):
            raise ValueError(f"limits such as 'ttft<1 inter_token<0.1'; there are {', '.join(LATENCIES)}")
        limits[match[1]] = float(match[2]) / (1000 if match[3] == "ms" else 1)
    return limits
