"""Requests as a list: those that are not over as they came, then those that are, the latest first; with their figures.

A request that is not over has a row for each of its sequences; one that is over has one row. Plain data, for any
drawer; unknown is None.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtop.view.life import Life, Span
from kvtop.view.pauses import Pauses
from kvtop.view.sequence_view import EndedRequest, SequenceView
from kvtop.view.sequence_words import state_of

if TYPE_CHECKING:
    from kvtop.view.pool_view import PoolView


@dataclass(frozen=True, slots=True)
class RequestRow:
    name: str
    request_id: str
    seq: int
    """0: it is over."""
    state: str
    """What it does now, or how it ended."""
    prompt_tokens: int
    generated: int
    cached_tokens: int
    preemptions: int
    recomputed_tokens: int
    blocks: int
    queued_s: float | None
    first_token_s: float | None
    longest_gap_s: float
    end_step: int
    """Its last step; the present one if it is not over."""
    end_s: float
    life: Life
    pauses: Pauses
    text: str

    @property
    def spans(self) -> list[Span]:
        """What it went through up to now, or up to its end."""
        return self.life.spans(self.end_step, self.end_s, self.pauses)

    @property
    def frozen_s(self) -> float | None:
        """All the time it stood still after it had begun to give out tokens; None: it never did."""
        return self.life.frozen_seconds(self.end_step, self.end_s, self.pauses)

    @property
    def waited_s(self) -> float | None:
        """All the time it stood in a queue: before its first admission, and while it was preempted or swapped out."""
        if self.life.is_cut or not self.life.stretches:
            return None
        return sum(span.seconds for span in self.spans if span.phase in ("waits", "preempted", "swapped"))

    @property
    def first_token_after_s(self) -> float | None:
        """From its arrival to its first token, but for what the engine was paused."""
        if self.first_token_s is None or self.queued_s is None:
            return None
        return self.pauses.outside(self.queued_s, self.first_token_s)


def request_rows(view: PoolView, now_s: float) -> list[RequestRow]:
    """All that are known; those that are over as far back as the view remembers."""
    going_on = [sequence for sequence in view.sequences.values() if sequence.status != "finished"]
    came: dict[str, int] = {}
    for sequence in going_on:
        came.setdefault(sequence.request_id, sequence.seq)
    going_on.sort(key=lambda sequence: (came[sequence.request_id], sequence.index))
    return [
        *(_alive(view, sequence, now_s) for sequence in going_on),
        *(_over(view, ended) for ended in reversed(view.ended)),
    ]


def _alive(view: PoolView, sequence: SequenceView, now_s: float) -> RequestRow:
    return RequestRow(
        name=sequence.name,
        request_id=sequence.request_id,
        seq=sequence.seq,
        state=state_of(sequence),
        prompt_tokens=sequence.prompt_tokens,
        generated=sequence.generated,
        cached_tokens=sequence.cached_tokens,
        preemptions=sequence.preemptions,
        recomputed_tokens=sequence.recomputed_tokens,
        blocks=len(sequence.table),
        queued_s=sequence.queued_s,
        first_token_s=sequence.first_token_s,
        longest_gap_s=sequence.longest_gap_s(now_s, view.pauses),
        end_step=view.step,
        end_s=now_s,
        life=sequence.life,
        pauses=view.pauses,
        text=sequence.text,
    )


def _over(view: PoolView, ended: EndedRequest) -> RequestRow:
    return RequestRow(
        name=ended.name,
        request_id=ended.request_id,
        seq=0,
        state=ended.reasons[0].replace("_", " "),
        prompt_tokens=ended.prompt_tokens,
        generated=ended.generated,
        cached_tokens=ended.cached_tokens,
        preemptions=ended.preemptions,
        recomputed_tokens=ended.recomputed_tokens,
        blocks=0,
        queued_s=ended.queued_s,
        first_token_s=ended.first_token_s,
        longest_gap_s=ended.longest_gap_s,
        end_step=ended.ended_step,
        end_s=ended.ended_s,
        life=ended.life,
        pauses=view.pauses,
        text=ended.text,
    )
