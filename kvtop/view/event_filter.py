"""Which events somebody wants to see: by type, by sequence, by request. Over any run of batches, in order.

An event belongs to every sequence it names, as subject, parent, source or cause of a shortage; sequences are led back
to their requests by the events that made them, so a filter must see batches from where a sequence began, or a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kvtop.engine.events import Advanced, AnyEvent, Batch, Forked, Queued

_NAMES_A_SEQUENCE = ("seq", "parent", "source", "needed_by")


def sequences_of(event: AnyEvent) -> set[int]:
    """Every sequence an event names."""
    if isinstance(event, Advanced):
        return set(event.seqs)
    return {seq for name in _NAMES_A_SEQUENCE if (seq := getattr(event, name, 0))}


class RequestBook:
    """Which request each sequence belongs to, as far as batches have told."""

    def __init__(self, known: Mapping[int, str]) -> None:
        self._request_of = dict(known)

    def note(self, batch: Batch) -> None:
        if batch.snapshot is not None:
            self._request_of.update((state.seq, state.request_id) for state in batch.snapshot.sequences)
        for event in batch.events:
            if isinstance(event, Queued | Forked):
                self._request_of[event.seq] = event.request_id

    def requests_of(self, event: AnyEvent) -> set[str]:
        """Every request an event is about."""
        found = {self._request_of[seq] for seq in sequences_of(event) if seq in self._request_of}
        if own := getattr(event, "request_id", ""):
            found.add(own)
        return found


@dataclass(frozen=True, slots=True)
class EventFilter:
    """What is None, or an empty set, lets everything through."""

    types: frozenset[str] = frozenset()
    """Tags such as ``preempted``."""
    seq: int | None = None
    request: str | None = None
    from_step: int | None = None
    to_step: int | None = None

    def pick(
        self, batches: Iterable[Batch], known: Mapping[int, str] = MappingProxyType({})
    ) -> Iterator[tuple[Batch, list[AnyEvent]]]:
        """Every batch with those of its events that are wanted; the list may be empty. ``known``: the request of each
        sequence that is there before the first batch."""
        book = RequestBook(known)
        for batch in batches:
            book.note(batch)
            yield batch, [event for event in batch.events if self._wants(batch, event, book)]

    def _wants(self, batch: Batch, event: AnyEvent, book: RequestBook) -> bool:
        return (
            (self.from_step is None or batch.step >= self.from_step)
            and (self.to_step is None or batch.step <= self.to_step)
            and (not self.types or event.__struct_config__.tag in self.types)
            and (self.seq is None or self.seq in sequences_of(event))
            and (self.request is None or self.request in book.requests_of(event))
        )
