"""A request in the making: the sequences that belong to it, and what it has cost so far.

One sequence for a plain request; after its prompt is computed, n of them for parallel samples, or a changing set of
beams.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kvtop.engine.beams import BeamSearch
from kvtop.engine.events import FinishReason
from kvtop.engine.requests import Request
from kvtop.engine.sequences import Sequence, Status


@dataclass(slots=True)
class RequestGroup:
    """``live`` are its unfinished sequences; ``arrival``, the number of its first one, rises with every
    request."""

    request: Request
    prompt: list[int]
    arrival: int
    stop_tokens: frozenset[int]
    """Token ids that end an answer."""
    live: list[Sequence] = field(default_factory=list)
    reasons: dict[int, FinishReason] = field(default_factory=dict)
    """How each finished output ended, by sample index."""
    beams: BeamSearch | None = None
    cached_tokens: int = 0
    generated: int = 0
    preemptions: int = 0
    recomputed_tokens: int = 0
    swapped_blocks: int = 0

    def running(self) -> list[Sequence]:
        return [sequence for sequence in self.live if sequence.status is Status.RUNNING]

    def unit(self, sequence: Sequence) -> list[Sequence]:
        """What must be preempted and brought back together with ``sequence``: beams move as one, for none of them can
        go on without the others; parallel samples are independent."""
        if self.beams is None:
            return [sequence]
        return [other for other in self.live if other.status is sequence.status]

    def may_decode(self) -> bool:
        """Beams take their next token in the same step: all must run, with only that token to compute."""
        return self.beams is None or all(
            sequence.status is Status.RUNNING and sequence.to_compute == 1 for sequence in self.live
        )

    def settle(self, sequence: Sequence) -> None:
        """Add what an ended sequence cost to the request's account."""
        self.live.remove(sequence)
        self.cached_tokens += sequence.cached_tokens
        self.preemptions += sequence.preemptions
        self.recomputed_tokens += sequence.recomputed_tokens
        self.swapped_blocks += sequence.swapped_blocks
