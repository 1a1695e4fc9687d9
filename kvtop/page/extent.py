"""Which part of a recording goes into a page, and which types of event: a first pass over its batches, that counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from kvtop.engine.events import AnyEvent, Batch
from kvtop.sources.timeline import Timeline
from kvtop.view.pool_view import PER_TOKEN

LISTED_FIRST = (
    ("preempted", "rejected", "warned", "commanded", "changed", "swapped_out", "swapped_in", "copied", "cache_cleared"),
    ("queued", "admitted", "resumed", "forked", "completed", "shortage"),
    ("waits", "finished", "evicted", "hit", "shared"),
    ("allocated", "cached", "freed", "requeued"),
)
"""Types of event, those that tell most first; where there are too many, the last groups are left out."""


@dataclass(slots=True)
class Contents:
    """How much there is."""

    steps: int = 0
    kinds: Counter[str] = field(default_factory=Counter)


def range_of(timeline: Timeline, from_step: int | None, to_step: int | None) -> tuple[int, int]:
    """The positions between which it plays, within one session."""
    end = timeline.end if to_step is None else timeline.position_after_step(to_step)
    start = timeline.first if from_step is None else timeline.position_after_step(max(0, from_step - 1))
    if end <= timeline.first:
        return start, start
    low, high = timeline.first, end - 1  # the first batch of the last session
    session = timeline.session_at(high)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if timeline.session_at(middle) == session else (middle + 1, high)
    start = max(start, low)
    return start, max(start, end)


def steps_of(timeline: Timeline, start: int, end: int) -> Iterator[tuple[Batch, bool]]:
    """The batches of a range, each with whether it is the last of its step."""
    before: Batch | None = None
    for batch in islice(timeline.batches(start), end - start):
        if before is not None:
            yield before, batch.step != before.step
        before = batch
    if before is not None:
        yield before, True


def contents_of(timeline: Timeline, start: int, end: int) -> Contents:
    """How much a range holds, per-token events left out."""
    counted = Contents()
    for batch, is_last in steps_of(timeline, start, end):
        counted.steps += is_last
        counted.kinds.update(kind_of(event) for event in batch.events if not isinstance(event, PER_TOKEN))
    return counted


def kind_of(event: AnyEvent) -> str:
    """An event's type as it travels: ``preempted``."""
    tag = event.__struct_config__.tag
    assert isinstance(tag, str)
    return tag


def listed_types(kinds: Counter[str], most: int) -> frozenset[str]:
    """As many groups of LISTED_FIRST as stay under ``most`` events; always the first."""
    listed = set(LISTED_FIRST[0])
    total = sum(kinds[kind] for kind in listed)
    for group in LISTED_FIRST[1:]:
        total += sum(kinds[kind] for kind in group)
        if total > most:
            break
        listed.update(group)
    return frozenset(listed)
