"""Which setting of a server to change, by what its metrics say: limits that are missed, and what makes them missed.

Plain functions over a row, its newest reading and the limits a person set; each names the setting as the server does.
A case needs MIN_REQUESTS in the window, so that one slow request advises nothing.
"""

from __future__ import annotations

from kvtop.attach.exposition import Reading
from kvtop.attach.histogram import Quantile
from kvtop.view import fleet_words as words
from kvtop.view.finding import Case
from kvtop.view.fleet import FleetRow
from kvtop.view.fleet_findings import where
from kvtop.view.server_facts import PHASES, largest_request, max_model_len
from kvtop.view.slo import Slo

MIN_REQUESTS = 5
WANTED_SHARE = 0.9
"""Of requests, within a limit."""
FEW_RUNNING = 2
"""Requests that run at once, with which batching cannot be what slows a token down."""
LOW_HIT_RATE = 0.05
MIN_QUERIED = 20_000
"""Prefix tokens looked up before a low hit rate means anything."""


def server_cases(row: FleetRow, reading: Reading, slo: Slo) -> dict[str, Case]:
    """All that holds now, by key."""
    cases = [
        *(_limit_missed(row, name, limit_s) for name, limit_s in slo.items()),
        _prefix_cache_off(row, reading),
        _prefix_cache_idle(row),
        _near_the_limit(row, reading),
    ]
    return dict(case for case in cases if case is not None)


def _limit_missed(row: FleetRow, name: str, limit_s: float) -> tuple[str, Case] | None:
    told = row.histograms.get(name)
    if row.is_stale or told is None or told.count < MIN_REQUESTS:
        return None
    within = told.share_within(limit_s)
    if within is None or within >= WANTED_SHARE:
        return None
    p95 = words.time(told.quantile(0.95))
    evidence = f"{within:.0%} within {limit_s:g} s, p95 {p95}, of {told.count:,.0f} in the last minute"
    advice = {"inter_token": _slow_tokens(row), "queue": _long_queue(row), "prefill": _slow_prefill(row)}.get(name)
    if advice is None:
        advice = _slow_start(row) if name == "ttft" else f"{_slow_start(row)}; {_slow_tokens(row)}"
    headline = f"{where(row)} misses its limit for {PHASES[name]}"
    return f"slo/{name}/{where(row)}", Case("warning", headline, evidence, advice)


def _slow_start(row: FleetRow) -> str:
    """The first token waits for the queue or for the prefill: whichever takes longer is to be shortened."""
    queue, prefill = row.quantile("queue", 0.9), row.quantile("prefill", 0.9)
    if queue is None or prefill is None:
        return "look which phase takes the time: the queue, or the prefill"
    return _long_queue(row) if queue.value >= prefill.value else _slow_prefill(row)


def _long_queue(row: FleetRow) -> str:
    p90 = _p90(row.quantile("queue", 0.9))
    if row.usage is not None and row.usage >= 0.9:
        return f"the queue takes {p90} and the pool is full: add a replica or memory (--gpu-memory-utilization)"
    return f"the queue takes {p90} while the pool has room: raise --max-num-seqs or --max-num-batched-tokens"


def _slow_prefill(row: FleetRow) -> str:
    p90 = _p90(row.quantile("prefill", 0.9))
    return f"the prefill takes {p90}: raise --max-num-batched-tokens, or let prompts share their beginning"


def _slow_tokens(row: FleetRow) -> str:
    if row.running is not None and row.running <= FEW_RUNNING:
        return "hardly anything runs beside it: the model is slow here; a faster GPU, a smaller or quantised model"
    running = f"{row.running:,.0f} run at once: " if row.running else ""
    return f"{running}lower --max-num-seqs, or --max-num-batched-tokens so that prefills hold decodes up less"


def _p90(quantile: Quantile | None) -> str:
    return f"{words.time(quantile)} (p90)"


def _prefix_cache_off(row: FleetRow, reading: Reading) -> tuple[str, Case] | None:
    if reading.info.get("enable_prefix_caching", "True") != "False":
        return None
    return f"nocache/{where(row)}", Case(
        "note",
        f"{where(row)} keeps no prefix cache",
        "enable_prefix_caching is False",
        "where prompts begin alike, --enable-prefix-caching saves their prefill",
    )


def _prefix_cache_idle(row: FleetRow) -> tuple[str, Case] | None:
    queried, rate = row.prefix_queried, row.hit_rate
    if row.is_stale or queried is None or rate is None or queried < MIN_QUERIED or rate >= LOW_HIT_RATE:
        return None
    return f"cold/{where(row)}", Case(
        "note",
        f"{where(row)} finds hardly any prefix",
        f"{rate:.1%} of {queried:,.0f} tokens looked up in the last minute",
        "put what all prompts share first, and what differs (dates, ids) last; route like prompts to one rank",
    )


def _near_the_limit(row: FleetRow, reading: Reading) -> tuple[str, Case] | None:
    cut = row.finished.get("length", 0.0)
    done = sum(row.finished.values())
    longest, limit = largest_request(reading), max_model_len(reading)
    if longest is None or limit is None or longest.beyond or longest.value > limit / 4 or done < MIN_REQUESTS:
        return None
    share = f", {cut / done:.0%} ended at their max tokens" if cut else ""
    return f"roomy/{where(row)}", Case(
        "note",
        f"{where(row)} allows far longer requests than it gets",
        f"none was longer than {longest.value:,.0f} tokens, --max-model-len is {limit:,.0f}{share}",
        "a smaller --max-model-len lets it profile less memory away, and refuses outliers early",
    )
