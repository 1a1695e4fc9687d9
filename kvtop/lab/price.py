"""What a schedule costs: a finished trace, priced by a cost model of a card.

Nothing here changes who ran when. Uncharged, a preempted sequence comes back for nothing, as in the published
experiment; charged, computing its lost KV again lengthens the step in which it comes back, for everybody. A stall is
the time a user's stream stood still: from the last token shown before a preemption to the next token that is new.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from math import ceil

from kvtop.engine.cost import CostModel
from kvtop.lab.trace import Entry, Loss, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Seconds, and rates over them. A stall's figure is None when there was no stall."""

    card: str
    recompute_charged: bool
    seconds: float
    tokens_per_s: float
    """All decoded tokens, those of thrown away answers too."""
    goodput_tokens_per_s: float
    """Tokens that reached a user, each once."""
    recompute_seconds: float
    """What computing all lost KV again takes, charged or not."""
    swap_seconds: float
    """What moving the same KV out over PCIe and back would take."""
    stalls: int
    stall_p50_s: float | None
    stall_p95_s: float | None
    stall_max_s: float | None


def price(trace: Trace, cost: CostModel, charge_recompute: bool) -> Price:
    """Price a whole trace."""
    ends_s = _step_ends(trace, cost, charge_recompute)
    seconds = ends_s[-1]
    stalls = sorted(ends_s[last] - ends_s[first] for first, last in stalled_steps(trace))
    kept = trace.decoded_tokens - trace.thrown_away_tokens
    return Price(
        card=cost.card,
        recompute_charged=charge_recompute,
        seconds=seconds,
        tokens_per_s=trace.decoded_tokens / seconds if seconds else 0.0,
        goodput_tokens_per_s=kept / seconds if seconds else 0.0,
        recompute_seconds=sum(cost.recompute_seconds(loss.tokens) for loss in trace.losses),
        swap_seconds=sum(cost.swap_seconds(loss.tokens) for loss in trace.losses),
        stalls=len(stalls),
        stall_p50_s=_percentile(stalls, 0.50),
        stall_p95_s=_percentile(stalls, 0.95),
        stall_max_s=stalls[-1] if stalls else None,
    )


def _step_ends(trace: Trace, cost: CostModel, charge_recompute: bool) -> list[float]:
    """When each step ends, in seconds; entry 0 is the start."""
    prefill = [0] * trace.steps
    for entry in trace.entries:
        if charge_recompute or not entry.again:
            prefill[entry.step - 1] += entry.tokens
    steps = (cost.step_seconds(*tokens) for tokens in zip(prefill, trace.live_tokens, strict=True))
    return list(accumulate(steps, initial=0.0))


def stalled_steps(trace: Trace) -> Iterator[tuple[int, int]]:
    """For each stall the step whose token was the last before it, and the step whose token was the first after it."""
    shown: dict[int, int] = {}
    """The most tokens a user has seen of a preempted sequence."""
    since: dict[int, int] = {}
    until: dict[int, int] = {}
    for happened in _in_order(trace):
        seq = happened.seq
        if isinstance(happened, Loss):
            if seq in until and until[seq] < happened.step:
                yield since.pop(seq), until[seq]
            until.pop(seq, None)
            since.setdefault(seq, happened.step - 1)
            shown[seq] = max(shown.get(seq, 0), happened.generated)
        elif seq in since:
            until[seq] = happened.step + shown[seq] - (happened.tokens - happened.prompt_tokens)
    for seq, last in until.items():
        yield since[seq], last


def _in_order(trace: Trace) -> Iterator[Loss | Entry]:
    """Losses and admissions as they happened: within a step the losses come first."""
    entry = 0
    for loss in trace.losses:
        following = bisect_left(trace.entries, loss.step, lo=entry, key=lambda e: e.step)
        yield from trace.entries[entry:following]
        yield loss
        entry = following
    yield from trace.entries[entry:]


def _percentile(ordered: list[float], share: float) -> float | None:
    """The nearest rank: the smallest value that at least this share does not exceed."""
    return ordered[ceil(share * len(ordered)) - 1] if ordered else None
