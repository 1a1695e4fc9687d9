"""Batches of one run → each request's outputs and the run's figures, as ``kvtop run`` prints them.

It reads batches and nothing else. Every token's time is the end of the step that computed it; a request's clock starts
when it arrives, which for one that arrives at a step is the beginning of that step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kvtop.engine.events import (
    Advanced,
    Batch,
    Completed,
    Finished,
    FinishReason,
    Forked,
    Queued,
    Rejected,
    StepTimed,
)
from kvtop.engine.requests import Request

BAD_ENDS = ("rejected", "pool_exhausted", "error")
"""Ends that make the run a failed one."""


@dataclass(slots=True)
class Output:
    """One answer in the making. Times are of the engine's monotonic clock, in seconds."""

    token_ids: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    token_times: list[float] = field(default_factory=list)
    logprobs: list[dict[str, Any]] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def mark_beam_step(self, now: float) -> None:
        """All beams of a request take a token in the same step; it counts once."""
        if not self.token_times or self.token_times[-1] != now:
            self.token_times.append(now)

    def times(self) -> list[float]:
        """When each token came. A beam search may go on after the step that ended its answer."""
        return self.token_times[: len(self.token_ids)]


@dataclass(slots=True)
class RequestReport:
    """``outputs`` by sample index. What is only known at the end is None until then."""

    request: Request
    arrived: float
    outputs: dict[int, Output] = field(default_factory=dict)
    prompt_tokens: int | None = None
    completed: Completed | None = None
    message: str = ""
    """Why it was rejected, or ended before its time."""


class RunReport:
    """``started``: the monotonic time at which the requests were handed to the engine."""

    def __init__(self, requests: list[Request], started: float) -> None:
        self.requests = {request.id: RequestReport(request, started + request.arrival_s) for request in requests}
        self.ended_requests = 0
        self.generated_tokens = 0
        self.preemptions = 0
        self._outputs: dict[int, tuple[RequestReport, Output]] = {}
        self._first_schedule: float | None = None
        self._last_token: float | None = None

    @property
    def wall_s(self) -> float | None:
        """Seconds from the first schedule to the last token; None before there is one."""
        if self._first_schedule is None or self._last_token is None:
            return None
        return self._last_token - self._first_schedule

    def apply(self, batch: Batch) -> None:
        """Take in what a step did."""
        began = batch.monotonic_s
        for event in batch.events:
            if isinstance(event, StepTimed):
                began -= event.schedule_s + event.run_s + event.update_s
                if self._first_schedule is None:
                    self._first_schedule = began
        for event in batch.events:
            match event:
                case Queued():
                    self._queue(event, began)
                case Rejected():
                    self._reject(event)
                case Forked():
                    self._fork(event)
                case Advanced():
                    self._advance(event, batch.monotonic_s)
                case Finished():
                    self._finish(event)
                case Completed():
                    self._complete(event, batch.monotonic_s)

    def end_unfinished(self) -> None:
        """The run broke off: what has not ended ended as an error."""
        for report in self.requests.values():
            if not report.outputs:
                report.outputs[0] = Output()
            for output in report.outputs.values():
                output.finish_reason = output.finish_reason or "error"

    def _queue(self, event: Queued, step_began: float) -> None:
        report = self.requests[event.request_id]
        report.prompt_tokens = event.prompt_tokens
        if report.request.arrival_step is not None:
            report.arrived = step_began
        self._open(event.seq, report, 0)

    def _reject(self, event: Rejected) -> None:
        report = self.requests[event.request_id]
        report.prompt_tokens = event.prompt_tokens
        report.message = event.reason
        for index in range(report.request.n):
            report.outputs[index] = Output(finish_reason="rejected")
        self.ended_requests += 1

    def _fork(self, event: Forked) -> None:
        report = self.requests[event.request_id]
        if report.request.beam_width:
            self._outputs[event.seq] = report, report.outputs[0]  # beams make one answer together
        else:
            self._open(event.seq, report, event.index)

    def _open(self, seq: int, report: RequestReport, index: int) -> None:
        output = report.outputs[index] = Output()
        self._outputs[seq] = report, output

    def _advance(self, event: Advanced, now: float) -> None:
        for row, (seq, token) in enumerate(zip(event.seqs, event.sampled, strict=True)):
            if token < 0 or seq not in self._outputs:
                continue
            report, output = self._outputs[seq]
            self._last_token = now
            if report.request.beam_width:
                output.mark_beam_step(now)
                continue
            self.generated_tokens += 1
            output.token_ids.append(token)
            output.texts.append(event.texts[row])
            output.token_times.append(now)
            if report.request.logprobs is not None:
                output.logprobs.append({"logprob": event.logprobs[row], "top": event.tops[row]})

    def _finish(self, event: Finished) -> None:
        report, output = self._outputs.pop(event.seq)
        report.message = report.message or event.message
        if event.reason == "pruned":
            return
        output.finish_reason = event.reason
        output.stop_reason = event.stop_reason

    def _complete(self, event: Completed, now: float) -> None:
        report = self.requests[event.request_id]
        report.completed = event
        self.preemptions += event.preemptions
        self.ended_requests += 1
        if report.request.beam_width:
            self._last_token = now
            self.generated_tokens += len(event.answer)
            output = report.outputs[0]
            output.mark_beam_step(now)
            output.token_ids, output.texts = event.answer, [event.answer_text]
            output.finish_reason = event.reasons[0]
