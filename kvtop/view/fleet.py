"""Many servers at a glance: a row a data-parallel rank, and one line that sums them and says how.

Running and waiting requests, tokens and preemptions are summed; usage is weighted by blocks; quantiles come from added
buckets. What a rank does not tell is None, never 0; what is stale keeps its last values in its row, with their age, and
is left out of the sum. Plain functions over watches; nothing here scrapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kvtop.attach.health import HealthState
from kvtop.attach.histogram import Histogram, Quantile, merged
from kvtop.attach.history import WINDOW_SECONDS, RankHistory
from kvtop.attach.server import ServerWatch
from kvtop.view.clean import clean_line

PREEMPTIONS_LAG = "by the server's counter, which rises only when a preempted request resumes"
LATENCIES = ("ttft", "inter_token", "e2e", "queue", "prefill", "decode")
LENGTHS = ("prompt_length", "output_length", "max_tokens")


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One rank, or with ``rank`` empty a server that has told none yet. Rates and histograms cover ``span_s``."""

    server: str
    rank: str
    state: HealthState
    reason: str
    """Why nothing came, when nothing came; clean."""
    age_s: float | None
    model: str = ""
    usage: float | None = None
    """Share of the pool's blocks that requests hold; cached blocks nobody holds count as free."""
    num_blocks: float | None = None
    """Blocks that requests can hold: vLLM's own placeholder is not among them."""
    block_size: float | None = None
    capacity_tokens: float | None = None
    running: float | None = None
    waiting: float | None = None
    waiting_by_reason: dict[str, float] = field(default_factory=dict)
    span_s: float = 0.0
    preemptions_per_min: float | None = None
    prefix_queried: float | None = None
    """Prefix tokens looked up within the window."""
    prefix_hit: float | None = None
    hit_rate: float | None = None
    """Found of those looked up; else what the server calls its rate, where it counts neither."""
    hit_rate_since_start: float | None = None
    prompt_tokens_per_s: float | None = None
    generated_tokens_per_s: float | None = None
    finished: dict[str, float] = field(default_factory=dict)
    """By reason, since the server started."""
    histograms: dict[str, Histogram] = field(default_factory=dict)
    """What came within the window."""
    restarted_s_ago: float | None = None
    missing: bool = False
    """The server answers and no longer tells of this rank."""

    @property
    def is_stale(self) -> bool:
        return self.missing or self.state in ("stale", "refused", "connecting")

    def quantile(self, figure: str, share: float) -> Quantile | None:
        """Of a latency or a length, over the window."""
        histogram = self.histograms.get(figure)
        return histogram.quantile(share) if histogram else None


@dataclass(frozen=True, slots=True)
class FleetTotal:
    """All rows that are fresh, as one."""

    ranks: int
    """Ranks that were summed."""
    left_out: int
    """Rows that are stale or silent."""
    running: float | None
    waiting: float | None
    usage: float | None
    usage_how: str
    """How usage was made one figure, in words."""
    preemptions_per_min: float | None
    prompt_tokens_per_s: float | None
    generated_tokens_per_s: float | None
    hit_rate: float | None
    histograms: dict[str, Histogram]

    def quantile(self, figure: str, share: float) -> Quantile | None:
        histogram = self.histograms.get(figure)
        return histogram.quantile(share) if histogram else None


def fleet_rows(watches: Iterable[ServerWatch], now_s: float, window_s: float = WINDOW_SECONDS) -> list[FleetRow]:
    """A row a rank, in the order of the servers."""
    rows: list[FleetRow] = []
    for watch in watches:
        if not watch.ranks:
            health = watch.health
            rows.append(
                FleetRow(
                    server=clean_line(watch.target.name, 60),
                    rank="",
                    state=health.state,
                    reason=clean_line(health.reason, 200),
                    age_s=health.age_s(now_s),
                )
            )
        rows += [_row(watch, rank, history, now_s, window_s) for rank, history in watch.ranks.items()]
    return rows


def _row(watch: ServerWatch, rank: str, history: RankHistory, now_s: float, window_s: float) -> FleetRow:
    last = history.last
    assert last is not None, "a rank exists from its first reading on"
    gauges = last.gauges
    preemptions = history.rate("preemptions", window_s)
    gained = {figure: history.histogram(figure, window_s) for figure in last.histograms}
    hit_rate = history.hit_rate(window_s)
    counts_hits = "prefix_queried" in last.counters
    restarted_s = history.restarted_s
    return FleetRow(
        server=clean_line(watch.target.name, 60),
        rank=clean_line(rank, 20),
        state=watch.health.state,
        reason=clean_line(watch.health.reason, 200),
        age_s=now_s - history.last_s,
        model=clean_line(last.model, 60),
        usage=gauges.get("usage"),
        num_blocks=last.usable_blocks,
        block_size=last.block_size,
        capacity_tokens=last.capacity_tokens,
        running=gauges.get("running"),
        waiting=gauges.get("waiting"),
        waiting_by_reason=_clean_keys(last.labelled.get("waiting_by_reason", {})),
        span_s=history.span_s(window_s),
        preemptions_per_min=None if preemptions is None else preemptions * 60,
        prefix_queried=history.rise("prefix_queried", window_s),
        prefix_hit=history.rise("prefix_hit", window_s),
        hit_rate=hit_rate if counts_hits else gauges.get("hit_rate_told"),
        hit_rate_since_start=history.hit_rate_since_start(),
        prompt_tokens_per_s=history.rate("prompt_tokens", window_s),
        generated_tokens_per_s=history.rate("generated_tokens", window_s),
        finished=_clean_keys(last.labelled.get("finished", {})),
        histograms={figure: histogram for figure, histogram in gained.items() if histogram is not None},
        restarted_s_ago=None if restarted_s is None else now_s - restarted_s,
        missing=rank in watch.gone,
    )


def _clean_keys(values: dict[str, float]) -> dict[str, float]:
    return {clean_line(key, 40): value for key, value in values.items()}


def fleet_total(rows: Sequence[FleetRow]) -> FleetTotal:
    """The sum line of these rows."""
    fresh = [row for row in rows if not row.is_stale]
    usage, usage_how = _weighted_usage(fresh)
    figures = {figure for row in fresh for figure in row.histograms}
    together = {
        figure: merged(row.histograms[figure] for row in fresh if figure in row.histograms) for figure in figures
    }
    return FleetTotal(
        ranks=len(fresh),
        left_out=len(rows) - len(fresh),
        running=_sum(row.running for row in fresh),
        waiting=_sum(row.waiting for row in fresh),
        usage=usage,
        usage_how=usage_how,
        preemptions_per_min=_sum(row.preemptions_per_min for row in fresh),
        prompt_tokens_per_s=_sum(row.prompt_tokens_per_s for row in fresh),
        generated_tokens_per_s=_sum(row.generated_tokens_per_s for row in fresh),
        hit_rate=_hit_rate(fresh),
        histograms={figure: histogram for figure, histogram in together.items() if histogram is not None},
    )


def _weighted_usage(rows: Sequence[FleetRow]) -> tuple[float | None, str]:
    known = [(row.usage, row.num_blocks) for row in rows if row.usage is not None and row.num_blocks]
    blocks = sum(count for _, count in known if count)
    if not blocks:
        return None, "not known: no rank tells both its usage and its blocks"
    usage = sum(usage * count for usage, count in known if usage is not None and count) / blocks
    part = "" if len(known) == len(rows) else f", {len(known)} of {len(rows)} ranks"
    return usage, f"weighted by blocks{part}"


def _hit_rate(rows: Sequence[FleetRow]) -> float | None:
    """Over all ranks that count their look-ups."""
    queried = sum(row.prefix_queried or 0.0 for row in rows)
    return sum(row.prefix_hit or 0.0 for row in rows) / queried if queried else None


def _sum(values: Iterable[float | None]) -> float | None:
    """Of those that are known; None when none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


@dataclass(frozen=True, slots=True)
class Imbalance:
    """The fullest and the emptiest rank."""

    fullest: FleetRow
    emptiest: FleetRow

    @property
    def spread(self) -> float:
        """Difference of their usages."""
        return (self.fullest.usage or 0.0) - (self.emptiest.usage or 0.0)


def imbalance(rows: Sequence[FleetRow]) -> Imbalance | None:
    """Between fresh ranks of one model; None with fewer than two."""
    fresh = [row for row in rows if not row.is_stale and row.usage is not None]
    pairs = []
    for model in {row.model for row in fresh}:
        peers = sorted((row for row in fresh if row.model == model), key=lambda row: row.usage or 0.0)
        if len(peers) > 1:
            pairs.append(Imbalance(peers[-1], peers[0]))
    return max(pairs, key=lambda pair: pair.spread, default=None)
