"""What is worth a word about a fleet: plain functions over its rows, each with evidence in numbers and what to do.

A finding that needs time to be true (a steady rate) looks at windowed figures that cover MIN_SPAN_SECONDS at least, so
one bad second fires nothing. Settings are called by the server's own names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvtop.view.finding import Case, Weight
from kvtop.view.fleet import PREEMPTIONS_LAG, FleetRow, imbalance
from kvtop.view.words import count, duration

MIN_SPAN_SECONDS = 30.0
FULL = 0.95
HALF_EMPTY = 0.5
STEADY_PREEMPTIONS_PER_MIN = 1.0
SPREAD = 0.3
FEW_RUNNING = 4
"""With fewer running now, their number says nothing of how many fit."""


Keyed = tuple[str, Case]
"""A case, and a key that stays the same while it is the same finding."""


def where(row: FleetRow) -> str:
    """A rank as people call it."""
    return f"{row.server} rank {row.rank}" if row.rank else row.server


def silent(row: FleetRow) -> Keyed | None:
    """Nothing current is known of a server."""
    if row.missing:
        return _case(
            f"missing/{where(row)}",
            "problem",
            f"{where(row)} is no longer told of",
            f"the server answers; this rank was last seen {duration(row.age_s)} ago",
            "look at the server's log: the rank may have died, or scaled down",
        )
    if row.state not in ("stale", "refused"):
        return None
    age = f"last heard of {duration(row.age_s)} ago" if row.age_s is not None else "never heard of"
    return _case(
        f"silent/{where(row)}",
        "problem",
        f"{row.server} does not answer" if row.state == "stale" else f"{row.server} tells no metrics",
        f"{row.reason}; {age}",
        "check address and port, and that the server runs",
    )


def preempts(row: FleetRow) -> Keyed | None:
    """Admission exceeds memory."""
    rate = row.preemptions_per_min
    if row.is_stale or rate is None or row.span_s < MIN_SPAN_SECONDS or rate < STEADY_PREEMPTIONS_PER_MIN:
        return None
    running = f", {row.running:,.0f} running" if row.running is not None else ""
    usage = f", usage {row.usage:.0%}" if row.usage is not None else ""
    lower = max(1, int((row.running or 0) * 0.8))
    advice = "give the pool more memory (--gpu-memory-utilization), or admit fewer: lower --max-num-seqs"
    return _case(
        f"preempts/{where(row)}",
        "problem",
        f"{where(row)} preempts steadily: admission exceeds memory",
        f"{rate:.1f} preemptions/min over {duration(row.span_s)}{running}{usage} ({PREEMPTIONS_LAG})",
        f"{advice} to about {lower:,}" if row.running and row.running >= FEW_RUNNING else advice,
    )


def waits_for_seats(row: FleetRow) -> Keyed | None:
    """Requests wait though there is room."""
    if row.is_stale or not row.waiting or row.usage is None or row.usage >= HALF_EMPTY or not row.running:
        return None
    return _case(
        f"seats/{where(row)}",
        "warning",
        f"{where(row)} lets requests wait beside a pool that is half empty",
        f"{count(int(row.waiting), 'request')} waiting, {row.running:,.0f} running, usage {row.usage:.0%}",
        "raise --max-num-seqs, or --max-num-batched-tokens where prompts are long",
    )


def full(row: FleetRow) -> Keyed | None:
    """Requests wait for blocks."""
    if row.is_stale or not row.waiting or row.usage is None or row.usage < FULL:
        return None
    return _case(
        f"full/{where(row)}",
        "problem",
        f"{where(row)} is full and requests wait",
        f"usage {row.usage:.0%}, {count(int(row.waiting), 'request')} waiting",
        "add a replica, or give the pool more memory; a KV cache in fp8 (--kv-cache-dtype fp8) holds twice as much",
    )


def uneven(rows: Sequence[FleetRow]) -> Keyed | None:
    """One rank is full while another has room."""
    pair = imbalance(rows)
    if pair is None or pair.spread < SPREAD:
        return None
    return _case(
        "uneven",
        "warning",
        "load is spread unevenly",
        f"{where(pair.fullest)} at {pair.fullest.usage:.0%}, {where(pair.emptiest)} at {pair.emptiest.usage:.0%}",
        "route by load or by prefix, not by turns; sticky sessions pile up on one rank",
    )


OF_A_ROW: tuple[Callable[[FleetRow], Keyed | None], ...] = (silent, preempts, full, waits_for_seats)


def fleet_findings(rows: Sequence[FleetRow]) -> dict[str, Case]:
    """All that holds now, by key."""
    found = [*(judge(row) for row in rows for judge in OF_A_ROW), uneven(rows)]
    return dict(keyed for keyed in found if keyed is not None)


def _case(key: str, weight: Weight, headline: str, evidence: str, advice: str) -> Keyed:
    return key, Case(weight, headline, evidence, advice)
