"""The engine: schedule → run → settle, one batch of events a step.

It joins the scheduler (who), a runner (the arithmetic) and a codec (text), applies commands between steps, and lets
requests arrive when their time comes. It starts no thread, opens no file and knows no reader: whoever drives it
calls ``step`` and passes the batches on. Clocks are handed in, so that a test or a simulation can own the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

from kvtop.engine import operations
from kvtop.engine.arrivals import Arrival, ArrivalQueue
from kvtop.engine.config import SchedulerConfig
from kvtop.engine.control import (
    Abort,
    AnyCommand,
    ClearCache,
    Inject,
    Measure,
    Pause,
    Preempt,
    Quit,
    Reply,
    Resume,
    Set,
    SetPriority,
    Spell,
    Step,
    TakeSnapshot,
)
from kvtop.engine.events import AnyEvent, Batch, Changed, Commanded, EngineInfo, StepTimed
from kvtop.engine.journal import Journal
from kvtop.engine.operations import Refused
from kvtop.engine.plan import Runner, StepPlan, StepResult
from kvtop.engine.requests import Request
from kvtop.engine.scheduler import Scheduler
from kvtop.engine.settlement import settle
from kvtop.engine.snapshots import take_snapshot
from kvtop.engine.text_reader import StreamReader, TextCodec

EVENT_TYPES = frozenset(event.__struct_config__.tag for event in get_args(AnyEvent))


@dataclass(slots=True)
class _Stepping:
    """A Step command being carried out while the engine is paused: at most ``left`` more steps, or until an event
    type."""

    left: int
    until: str
    cause: int


class Engine:
    """``step()`` computes one step and returns its batch; None when there is nothing to do now.

    ``inspect`` is called with the scheduler after every step (the self-check, in tests and with ``--check``).
    """

    def __init__(
        self,
        info: EngineInfo,
        config: SchedulerConfig,
        runner: Runner,
        codec: TextCodec,
        eos_token_ids: frozenset[int] = frozenset(),
        vocab_size: int | None = None,
        inspect: Callable[[Scheduler], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.info = info
        self.journal = Journal()
        self.scheduler = Scheduler(config, self.journal, eos_token_ids)
        self.paused = False
        self._runner = runner
        self._codec = codec
        self._vocab_size = vocab_size
        self._reader = StreamReader(codec)
        self._inspect = inspect
        self._monotonic, self._wall = monotonic, wall
        self._number = 0
        self._stepping: _Stepping | None = None
        self._by_time = ArrivalQueue()
        self._by_step = ArrivalQueue()
        self._snapshot_wanted = True

    # --- the step -----------------------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Whether a request is unfinished or still to arrive."""
        return bool(self.scheduler.roster.groups or self._by_time or self._by_step)

    @property
    def awaits_arrival(self) -> bool:
        """Whether there is nothing to compute until a request arrives by the clock."""
        return not self.scheduler.has_work and bool(self._by_time) and self._by_time.next_due > self._monotonic()

    def seconds_to_next_arrival(self) -> float | None:
        """How long until a request arrives by the clock; None when none will, or while paused."""
        if not self._by_time or (self.paused and self._stepping is None):
            return None
        return max(0.0, self._by_time.next_due - self._monotonic())

    def step(self) -> Batch | None:
        """Compute one step. While paused, or with nothing to compute before the next arrival: what ``flush``
        returns."""
        if self.paused and self._stepping is None:
            return self.flush()
        self._let_arrive()
        if not self.scheduler.has_work:
            return self.flush()
        started = self._monotonic()
        plan = self.scheduler.schedule()
        scheduled = self._monotonic()
        result = self._run(plan)
        ran = self._monotonic()
        settle(self.scheduler, plan, result.sampled, self._reader)
        self.scheduler.counters.steps += 1
        self._forget_ended(plan)
        decode = sum(1 for entry in plan.scheduled if entry.count == 1)
        self.journal.add(
            StepTimed,
            0,
            schedule_s=scheduled - started,
            run_s=ran - scheduled,
            update_s=self._monotonic() - ran,
            prefill_tokens=plan.num_tokens - decode,
            decode_tokens=decode,
        )
        if self._inspect is not None:
            self._inspect(self.scheduler)
        events = self.journal.drain()
        self._count_step(events)
        return self._batch(events)

    def _run(self, plan: StepPlan) -> StepResult:
        result = self._runner.run(plan)
        if result.computed_tokens != plan.num_tokens:
            raise RuntimeError(f"the runner computed {result.computed_tokens} tokens, {plan.num_tokens} were scheduled")
        return result

    def _forget_ended(self, plan: StepPlan) -> None:
        ended = [entry.sequence for entry in plan.scheduled if entry.sequence.finish_reason is not None]
        for sequence in ended:
            self._runner.release(sequence)
        if ended:
            groups = self.scheduler.roster.groups.values()
            self._reader.keep_only({sequence.seq for group in groups for sequence in group.live})

    def _count_step(self, events: list[AnyEvent]) -> None:
        """Pause again when the steps that were asked for are done, or the event that was waited for has come."""
        stepping = self._stepping
        if stepping is None:
            return
        stepping.left -= 1
        if stepping.left <= 0 or any(event.__struct_config__.tag == stepping.until for event in events):
            self._stepping = None
            self._set_paused(True, stepping.cause)
            events.extend(self.journal.drain())

    # --- arrivals -----------------------------------------------------------------------------------------------------

    def _let_arrive(self) -> None:
        for arrival in self._by_time.take_due(self._monotonic()):
            self._add(arrival.request, arrival.prompt, arrival.cause)
        if self._by_step and not self.scheduler.has_work and not self._by_time:
            # nothing computes until then, so the steps between are passed over
            self.scheduler.roster.step = max(self.scheduler.roster.step, int(self._by_step.next_due) - 1)
        for arrival in self._by_step.take_due(self.scheduler.roster.step + 1):
            self._add(arrival.request, arrival.prompt, arrival.cause)

    def _add(self, request: Request, prompt: list[int], cause: int) -> None:
        self.scheduler.roster.add(request, prompt, cause, request.shown_prompt)

    # --- commands -----------------------------------------------------------------------------------------------------

    def apply(self, command: AnyCommand) -> Reply:
        """Carry out a command between two steps. What it did is in the next batch (see ``flush``)."""
        if isinstance(command, Spell):
            return Reply(ticket=command.ticket, texts=[self._codec.decode([token]) for token in command.token_ids])
        try:
            value = self._apply(command)
        except Refused as refusal:
            return Reply(ticket=command.ticket, error=str(refusal))
        return Reply(ticket=command.ticket, value=value)

    def _apply(self, command: AnyCommand) -> int:
        scheduler = self.scheduler
        match command:
            case Inject(requests=requests):
                return self._inject(requests)
            case Measure(request=request):
                return len(self._tokenize(request))
            case Pause():
                self._stepping = None
                self._set_paused(True, self._command("pause"))
            case Resume():
                self._stepping = None
                self._set_paused(False, self._command("resume"))
            case Step(steps=steps, until=until):
                self._start_stepping(steps, until)
            case Preempt(seq=seq, mode=mode):
                self._carry_out(
                    "preempt", f"{seq} {mode}", lambda cause: operations.preempt(scheduler, seq, mode, cause)
                )
            case Abort(request_id=request_id):
                self._abort(request_id)
            case ClearCache():
                self._carry_out("clear_cache", "", lambda cause: operations.clear_cache(scheduler, cause))
            case Set(name=name, value=value):
                self._carry_out(
                    "set", f"{name} {value}", lambda cause: operations.change_setting(scheduler, name, value, cause)
                )
            case SetPriority(request_id=request_id, priority=priority):
                self._carry_out(
                    "set_priority",
                    f"{request_id} {priority}",
                    lambda cause: operations.change_priority(scheduler, request_id, priority, cause),
                )
            case TakeSnapshot():
                self._snapshot_wanted = True
            case Quit():
                pass
        return 0

    def _command(self, command: str, detail: str = "") -> int:
        return self.journal.add(Commanded, 0, command=command, detail=detail)

    def _carry_out(self, command: str, detail: str, action: Callable[[int], None]) -> None:
        """Report the command, then do it; a refused one leaves no trace."""
        cause = self._command(command, detail)
        try:
            action(cause)
        except Refused:
            self.journal.retract(cause)
            raise

    def _set_paused(self, paused: bool, cause: int) -> None:
        if paused != self.paused:
            self.journal.add(Changed, cause, name="paused", old=str(self.paused).lower(), new=str(paused).lower())
            self.paused = paused

    def _start_stepping(self, steps: int, until: str) -> None:
        if steps < 1:
            raise Refused(f"step: is {steps}, expected 1 or more")
        if until and until not in EVENT_TYPES:
            raise Refused(f"step: {until!r} is no event type, expected one of {', '.join(sorted(EVENT_TYPES))}")
        self._stepping = _Stepping(steps, until, self._command("step", until or str(steps)))

    def _inject(self, requests: list[Request]) -> int:
        """Take requests in: all of them, or none and the reason."""
        known = {*self.scheduler.roster.groups, *self._by_time.request_ids(), *self._by_step.request_ids()}
        prompts = []
        for position, request in enumerate(requests):
            where = f"request {position + 1} ({request.id!r})"
            if request.id in known:
                raise Refused(f"{where}: its id is in use by an unfinished request, choose another")
            known.add(request.id)
            fault = request.check()
            if fault:
                raise Refused(f"{where}: {fault}")
            prompts.append(self._tokenize(request, where))
        cause = self._command("inject", f"{len(requests)} {'request' if len(requests) == 1 else 'requests'}")
        now = self._monotonic()
        for request, prompt in zip(requests, prompts, strict=True):
            if request.arrival_step is not None:
                self._by_step.put(request.arrival_step, Arrival(request, prompt, cause))
            elif request.arrival_s > 0:
                self._by_time.put(now + request.arrival_s, Arrival(request, prompt, cause))
            else:
                self._add(request, prompt, cause)
        return len(requests)

    def _tokenize(self, request: Request, where: str = "request") -> list[int]:
        if request.prompt_token_ids is None:
            try:
                if request.messages is not None:
                    prompt = self._codec.encode_turns(request.messages)
                else:
                    prompt = self._codec.encode(request.prompt or "", chat=request.chat)
            except ValueError as error:
                raise Refused(f"{where}: {error}") from None
            if not prompt:
                raise Refused(f"{where}: prompt: is empty, expected at least one token of text")
            return prompt
        largest = max(request.prompt_token_ids)
        if self._vocab_size is not None and largest >= self._vocab_size:
            raise Refused(
                f"{where}: prompt_token_ids: {largest} is outside the vocabulary of {self._vocab_size} tokens"
            )
        return request.prompt_token_ids

    def _abort(self, request_id: str) -> None:
        """End a request, also one that has not arrived yet."""
        for queue in (self._by_time, self._by_step):
            if queue.remove(request_id):
                self._command("abort", request_id)
                return
        self._carry_out("abort", request_id, lambda cause: operations.abort(self.scheduler, request_id, cause))

    # --- batches ------------------------------------------------------------------------------------------------------

    def flush(self) -> Batch | None:
        """What happened between steps (commands, arrivals, a snapshot somebody asked for), or None if nothing did."""
        if self.journal.empty and not self._snapshot_wanted:
            return None
        return self._batch(self.journal.drain())

    def snapshot(self) -> Batch:
        """The whole state as a batch; it replaces every batch before it."""
        self._snapshot_wanted = True
        return self._batch(self.journal.drain())

    def _batch(self, events: list[AnyEvent]) -> Batch:
        snapshot = None
        if self._snapshot_wanted:
            self._snapshot_wanted = False
            snapshot = take_snapshot(self.scheduler, self.info, self.paused, self._reader.text)
        self._number += 1
        return Batch(
            number=self._number,
            step=self.scheduler.roster.step,
            monotonic_s=self._monotonic(),
            wall_s=self._wall(),
            events=events,
            snapshot=snapshot,
        )
