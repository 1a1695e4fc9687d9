"""Settling a step: what the runner computed becomes tokens, forks, finished sequences and indexed blocks.

Order matters and is the same every time: KV first counts as computed, then parallel samples and beams part (they share
what is computed by now), then tokens are appended, then full blocks enter the prefix index, then sequences end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from kvtop.engine.beams import Continuation
from kvtop.engine.events import Advanced, FinishReason
from kvtop.engine.groups import RequestGroup
from kvtop.engine.plan import Sampled, Scheduled, StepPlan
from kvtop.engine.scheduler import Scheduler
from kvtop.engine.sequences import Sequence, Status


class TextReader(Protocol):
    """Turns tokens into text, and knows stop strings. One stream a sequence."""

    def push(self, sequence: Sequence, token: int) -> str:
        """The text that became final with this token; often empty."""
        ...

    def stop_met(self, sequence: Sequence) -> str | None:
        """The stop string that the text has run into."""
        ...

    def close(self, sequence: Sequence) -> str:
        """The sequence ended: the text that was still held back."""
        ...

    def decode(self, tokens: list[int]) -> str: ...


@dataclass(slots=True)
class _Rows:
    """The columns of the step's Advanced event, in the making."""

    seqs: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    sampled: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    draws: list[Sampled | None] = field(default_factory=list)
    recomputed: int = 0
    wants_logprobs: bool = False

    def add(self, sequence: Sequence, count: int, drawn: Sampled | None = None, text: str = "") -> None:
        self.seqs.append(sequence.seq)
        self.counts.append(count)
        self.sampled.append(-1 if drawn is None else drawn.token)
        self.texts.append(text)
        self.draws.append(drawn)
        self.wants_logprobs |= sequence.request.logprobs is not None

    def set_token(self, row: int, token: int) -> None:
        """A beam took its token after all were compared."""
        self.sampled[row] = token


@dataclass(slots=True)
class _Ending:
    sequence: Sequence
    reason: FinishReason
    stop_reason: str | int | None


def settle(scheduler: Scheduler, plan: StepPlan, sampled: list[list[Sampled]], reader: TextReader) -> None:
    """Book a step. Sequences that were aborted since it was scheduled are passed over."""
    rows = _Rows()
    endings: list[_Ending] = []
    beam_groups: dict[str, list[tuple[Scheduled, list[Sampled], int]]] = {}
    computed: list[Sequence] = []
    for entry, drawn in zip(plan.scheduled, sampled, strict=True):
        sequence = entry.sequence
        if sequence.status is not Status.RUNNING:
            continue
        computed.append(sequence)
        _count_computed(scheduler, entry, rows)
        if entry.draws:
            _append_draws(scheduler, entry, drawn, rows, endings, reader)
        else:
            rows.add(sequence, entry.count)
        if entry.candidates:
            beam_groups.setdefault(sequence.request.id, []).append((entry, drawn, len(rows.seqs) - 1))
    finished_beams = [_advance_beams(scheduler, parts, rows) for parts in beam_groups.values()]
    if not rows.seqs:
        return
    advanced = _report(scheduler, rows)
    for sequence in computed:
        if sequence.status is Status.RUNNING:
            scheduler.kv.index_full_blocks(sequence, advanced)
    for ending in endings:
        scheduler.roster.finish(ending.sequence, ending.reason, advanced, ending.stop_reason)
    for group in finished_beams:
        if group is not None:
            _complete_beams(scheduler, group, advanced, reader)


def _count_computed(scheduler: Scheduler, entry: Scheduled, rows: _Rows) -> None:
    sequence = entry.sequence
    again = max(0, min(entry.start + entry.count, sequence.high_water) - entry.start)
    sequence.computed += entry.count
    if sequence.seq in scheduler.roster.prefilling and sequence.to_compute <= 1:
        scheduler.roster.end_prefill(sequence)
    sequence.recomputed_tokens += again
    rows.recomputed += again
    counters = scheduler.counters
    counters.computed_tokens += entry.count
    counters.recomputed_tokens += again


def _append_draws(
    scheduler: Scheduler,
    entry: Scheduled,
    drawn: list[Sampled],
    rows: _Rows,
    endings: list[_Ending],
    reader: TextReader,
) -> None:
    """One token for the sequence; the draws beyond it become parallel samples of their own."""
    sequence = entry.sequence
    children = _part(scheduler, sequence, list(range(1, len(drawn)))) if len(drawn) > 1 else []
    _append(scheduler, sequence, entry.count, drawn[0], rows, endings, reader)
    for child, draw in zip(children, drawn[1:], strict=True):
        _append(scheduler, child, 0, draw, rows, endings, reader)


def _append(
    scheduler: Scheduler,
    sequence: Sequence,
    count: int,
    draw: Sampled,
    rows: _Rows,
    endings: list[_Ending],
    reader: TextReader,
) -> None:
    sequence.tokens.append(draw.token)
    sequence.cumulative_logprob += draw.logprob
    scheduler.counters.generated_tokens += 1
    text = reader.push(sequence, draw.token)
    ending = _ending(scheduler, sequence, draw.token, reader)
    if ending is not None:
        text += reader.close(sequence)
        endings.append(ending)
    rows.add(sequence, count, draw, text)


def _part(scheduler: Scheduler, parent: Sequence, indices: list[int]) -> list[Sequence]:
    """Fork once for each index: at once where a seat and a block are there, else the fork waits in the queue."""
    children = []
    pledged = 1 if parent.computed % scheduler.config.block_size == 0 else 0  # what the parent writes next
    for index in indices:
        child = scheduler.roster.fork(parent, index)
        runs_now = scheduler.admission.can_start_fork(parent, pledged)
        event = scheduler.kv.report_fork(parent, child, runs_now, 1, parent.last_event)
        if runs_now:
            scheduler.kv.share_all(parent, child, event)
            scheduler.roster.start_fork(parent, child, event)
            pledged += 1
        else:
            child.last_event = event
            scheduler.roster.enqueue(child)
        children.append(child)
    return children


def _ending(scheduler: Scheduler, sequence: Sequence, token: int, reader: TextReader) -> _Ending | None:
    request = sequence.request
    if token in scheduler.group_of(sequence).stop_tokens:
        return _Ending(sequence, "stop", token)
    stop = reader.stop_met(sequence)
    if stop is not None:
        return _Ending(sequence, "stop", stop)
    if sequence.generated >= request.max_tokens or len(sequence.tokens) >= scheduler.config.max_model_len:
        return _Ending(sequence, "length", None)
    return None


def _advance_beams(
    scheduler: Scheduler, parts: list[tuple[Scheduled, list[Sampled], int]], rows: _Rows
) -> RequestGroup | None:
    """Let the beams of one request take their next token; the group when its search is over."""
    beams = [entry.sequence for entry, _, _ in parts]
    group = scheduler.roster.groups[beams[0].request.id]
    search = group.beams
    assert search is not None
    proposals = [
        [Continuation(i, draw.token, beam.cumulative_logprob + draw.logprob) for draw in drawn]
        for i, (beam, (_, drawn, _)) in enumerate(zip(beams, parts, strict=True))
    ]
    surviving = search.advance([beam.tokens[beam.prompt_len :] for beam in beams], proposals)
    if search.done:
        return group
    chosen: dict[int, list[Continuation]] = {}
    for continuation in surviving:
        chosen.setdefault(continuation.parent, []).append(continuation)
    for i, beam in enumerate(beams):
        if i not in chosen:
            scheduler.roster.finish(beam, "pruned")
    free_indices = sorted(set(range(search.width)) - {beam.index for beam in group.live})
    for i, continuations in chosen.items():
        own, *forked = continuations
        children = _part(scheduler, beams[i], [free_indices.pop(0) for _ in forked])
        for child, continuation in zip(children, forked, strict=True):
            _take(child, continuation)
            rows.add(child, 0, Sampled(continuation.token))
        _take(beams[i], own)
        rows.set_token(parts[i][2], own.token)
    return None


def _take(beam: Sequence, continuation: Continuation) -> None:
    beam.tokens.append(continuation.token)
    beam.cumulative_logprob = continuation.score


def _complete_beams(scheduler: Scheduler, group: RequestGroup, advanced: int, reader: TextReader) -> None:
    search = group.beams
    assert search is not None
    answer = search.best(group.live)
    last = answer[-1]
    ended: FinishReason = "stop" if last in search.stop_tokens else "length"
    scheduler.counters.generated_tokens += len(answer)
    scheduler.roster.end_group(group, ended, advanced, text=reader.decode(answer))


def _report(scheduler: Scheduler, rows: _Rows) -> int:
    draws = rows.draws if rows.wants_logprobs else []
    return scheduler.journal.add(
        Advanced,
        0,
        seqs=rows.seqs,
        counts=rows.counts,
        sampled=rows.sampled,
        texts=rows.texts,
        recomputed=rows.recomputed,
        logprobs=[0.0 if draw is None else draw.logprob for draw in draws],
        tops=[[] if draw is None else list(draw.top) for draw in draws],
    )
