"""What metrics tell of one rank beyond its row: latencies by phase, request shapes, capacity, what it was set to.

Plain functions over its readings. What a server does not tell is None; quantiles are over the window, what is "largest"
is since the server started, and known to the bound of a bucket.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvtop.attach.exposition import Reading
from kvtop.attach.histogram import Histogram, Quantile
from kvtop.view.fleet import LENGTHS, FleetRow
from kvtop.view.slo import Slo

PHASES = {
    "queue": "in the queue",
    "prefill": "prefill",
    "decode": "decode",
    "ttft": "first token",
    "inter_token": "each token",
    "e2e": "end to end",
}
"""Latency → what it is called, in the order in which a request goes through them."""

SHAPES = {"prompt_length": "prompt", "output_length": "answer", "max_tokens": "max tokens asked"}


@dataclass(frozen=True, slots=True)
class LatencyFacts:
    """One latency over the window, in seconds."""

    name: str
    count: float | None
    """Requests (or tokens) it was measured on; None: the server does not tell it."""
    mean_s: float | None
    p50: Quantile | None
    p90: Quantile | None
    p99: Quantile | None
    limit_s: float | None
    within: float | None
    """Share that kept the limit."""


def latencies(row: FleetRow, slo: Slo) -> list[LatencyFacts]:
    """One for each phase, in order."""
    return [_latency(name, row.histograms.get(name), slo.get(name)) for name in PHASES]


def _latency(name: str, told: Histogram | None, limit_s: float | None) -> LatencyFacts:
    if told is None:
        return LatencyFacts(name, None, None, None, None, None, limit_s, None)
    within = told.share_within(limit_s) if limit_s is not None else None
    p50, p90, p99 = (told.quantile(share) for share in (0.5, 0.9, 0.99))
    return LatencyFacts(name, told.count, told.mean, p50, p90, p99, limit_s, within)


@dataclass(frozen=True, slots=True)
class ShapeFacts:
    """One length of requests, in tokens: over the window, and the largest since the server started."""

    name: str
    p50: Quantile | None
    p99: Quantile | None
    largest: Quantile | None


def shapes(row: FleetRow, reading: Reading) -> list[ShapeFacts]:
    """One for each length that requests have."""
    found = []
    for name in LENGTHS:
        ever = reading.histograms.get(name)
        largest = ever.largest() if ever is not None else None
        found.append(ShapeFacts(name, row.quantile(name, 0.5), row.quantile(name, 0.99), largest))
    return found


def max_model_len(reading: Reading) -> float | None:
    """The longest prompt plus answer. vLLM tells it through the pool's tokens and how many such requests fit."""
    told = reading.gauges.get("max_model_len") or reading.info_number("max_model_len")
    fitting = reading.info_number("kv_cache_max_concurrency")
    if told is None and fitting and reading.capacity_tokens:
        told = float(round(reading.capacity_tokens / fitting))
    return told


def largest_request(reading: Reading) -> Quantile | None:
    """No request was longer, prompt and answer together: the sum of the largest bucket of each, so an upper bound."""
    prompt, answer = (reading.histograms.get(name) for name in ("prompt_length", "output_length"))
    longest = [told.largest() for told in (prompt, answer) if told is not None]
    if len(longest) < 2 or longest[0] is None or longest[1] is None:
        return None
    return Quantile(longest[0].value + longest[1].value, longest[0].beyond or longest[1].beyond)


def finish_shares(finished: Mapping[str, float]) -> list[tuple[str, float, float]]:
    """Reason, requests, and their share, the most frequent first; reasons that never came are left out."""
    total = sum(finished.values())
    told = sorted(finished.items(), key=lambda pair: -pair[1])
    return [(reason, count, count / total) for reason, count in told if count]
