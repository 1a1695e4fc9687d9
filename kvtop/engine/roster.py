"""The roster: every unfinished request, its sequences, and which of them run, wait, or are swapped out.

One place through which sequences come into being, change queue and end. It decides nothing about memory or turns; the
scheduler does, and reports through the same journal. Each request gets exactly one terminal event here.
"""

from __future__ import annotations

from bisect import insort

from kvtop.engine.beams import beam_search
from kvtop.engine.config import SchedulerConfig
from kvtop.engine.events import Completed, Counters, Finished, FinishReason, Queued, Rejected
from kvtop.engine.groups import RequestGroup
from kvtop.engine.journal import Journal
from kvtop.engine.kv_manager import KvManager
from kvtop.engine.requests import Request, stop_tokens
from kvtop.engine.sequences import Sequence, Status
from kvtop.engine.tables import BlockTable


class Roster:
    """``running`` is in admission order, ``prefilling`` those of it with more than one token to compute; ``waiting``
    and ``swapped`` by priority, then arrival. ``groups`` holds every unfinished request by its id, ``beam_searches``
    counts those with beams. ``moves`` counts changes of queue, so that a standstill can be noticed."""

    def __init__(
        self,
        config: SchedulerConfig,
        kv: KvManager,
        journal: Journal,
        counters: Counters,
        eos_token_ids: frozenset[int],
    ) -> None:
        self.config = config
        self.kv = kv
        self.journal = journal
        self.counters = counters
        self.eos_token_ids = eos_token_ids
        self.groups: dict[str, RequestGroup] = {}
        self.running: list[Sequence] = []
        self.waiting: list[Sequence] = []
        self.swapped: list[Sequence] = []
        self.prefilling: dict[int, Sequence] = {}
        self.beam_searches = 0
        self.step = 0
        self.moves = 0
        self._next_seq = 1
        self._next_admission = 1

    # --- coming into being --------------------------------------------------------------------------------------------

    def add(self, request: Request, prompt: list[int], cause: int = 0, text: str = "") -> bool:
        """Queue a request whose prompt is tokenized; False when it can never run and was rejected."""
        if request.id in self.groups:
            raise ValueError(f"request id {request.id!r} is in use by an unfinished request")
        self.counters.requests += 1
        sequence = self._new_sequence(request, list(prompt), len(prompt), 0)
        needed = self.kv.blocks_to_hold(sequence, len(prompt))
        reason = self._why_never(request, len(prompt), needed)
        if reason:
            self.counters.rejected += 1
            self.journal.add(
                Rejected,
                cause,
                request_id=request.id,
                reason=reason,
                needed_blocks=needed,
                num_blocks=self.config.num_blocks,
                prompt_tokens=len(prompt),
            )
            return False
        stops = stop_tokens(request, self.eos_token_ids)
        beams = beam_search(request, len(prompt), self.config.max_model_len, stops)
        group = RequestGroup(request, list(prompt), sequence.seq, stops, live=[sequence], beams=beams)
        self.groups[request.id] = group
        self.beam_searches += beams is not None
        sequence.queued_event = sequence.last_event = self.journal.add(
            Queued,
            cause,
            seq=sequence.seq,
            request_id=request.id,
            prompt_tokens=len(prompt),
            max_tokens=request.max_tokens,
            n=request.n,
            beam_width=request.beam_width,
            priority=request.priority,
            prompt=text[:400],
        )
        self.enqueue(sequence)
        return True

    def _why_never(self, request: Request, prompt_len: int, needed: int) -> str:
        config = self.config
        if prompt_len > config.max_model_len:
            return f"the prompt has {prompt_len} tokens, max_model_len is {config.max_model_len}"
        if needed > config.num_blocks:
            what = f"{config.policy} reserves" if self.kv.policy.contiguous else f"its {prompt_len} prompt tokens need"
            return f"{what} {needed} blocks of {config.block_size} tokens, the pool has {config.num_blocks}"
        for name in ("max_num_seqs", "max_num_batched_tokens"):
            if request.beam_width > getattr(config, name):
                return f"{request.beam_width} beams run together, {name} is {getattr(config, name)}"
        if request.beam_width and self.kv.policy.contiguous:
            return f"beams share and fork their blocks at every step, {config.policy} keeps one region a sequence"
        return ""

    def _new_sequence(self, request: Request, tokens: list[int], prompt_len: int, index: int) -> Sequence:
        size = self.config.block_size
        sequence = Sequence(
            self._next_seq,
            request,
            index,
            tokens,
            prompt_len,
            BlockTable(size),
            BlockTable(size),
            queued_step=self.step,
        )
        self._next_seq += 1
        return sequence

    def fork(self, parent: Sequence, index: int) -> Sequence:
        """A new sequence with the parent's tokens; the caller makes it share or wait."""
        child = self._new_sequence(parent.request, list(parent.tokens), parent.prompt_len, index)
        child.high_water = parent.computed
        child.cumulative_logprob = parent.cumulative_logprob
        self.groups[parent.request.id].live.append(child)
        return child

    # --- changing queue -----------------------------------------------------------------------------------------------

    def enqueue(self, sequence: Sequence) -> None:
        """Put it in the queue by priority, then arrival: a preempted sequence comes before all that never ran."""
        sequence.status = Status.WAITING
        sequence.queued_step = self.step
        sequence.wait = None
        insort(self.waiting, sequence, key=self.queue_order)

    def enqueue_swapped(self, sequence: Sequence) -> None:
        """Its KV lies in the swap space now; it comes back before anything waiting is admitted."""
        sequence.status = Status.SWAPPED
        sequence.queued_step = self.step
        sequence.wait = None
        insort(self.swapped, sequence, key=self.queue_order)

    def sort_queues(self) -> None:
        """A priority changed: put the queues in order again."""
        self.waiting.sort(key=self.queue_order)
        self.swapped.sort(key=self.queue_order)

    def queue_order(self, sequence: Sequence) -> tuple[int, int, int]:
        """Its place in a queue: what is smaller goes first."""
        return sequence.request.priority, self.groups[sequence.request.id].arrival, sequence.index

    def start_running(self, sequence: Sequence, event: int) -> None:
        """It was admitted, or came back; it is the newest now."""
        self.moves += 1
        sequence.status = Status.RUNNING
        sequence.admitted_order = self._next_admission
        self._next_admission += 1
        sequence.last_event = event
        sequence.wait = None
        sequence.preempt_mode = None
        self.running.append(sequence)
        if sequence.to_compute > 1:
            self.prefilling[sequence.seq] = sequence

    def start_fork(self, parent: Sequence, child: Sequence, event: int) -> None:
        """A forked sequence runs at once, beside its parent and as old as it: it belongs to the same admission."""
        child.status = Status.RUNNING
        child.admitted_order = parent.admitted_order
        child.last_event = event
        place = self.running.index(parent) + 1
        while place < len(self.running) and self.running[place].admitted_order == parent.admitted_order:
            place += 1
        self.running.insert(place, child)

    def stop_running(self, sequence: Sequence) -> None:
        """It was preempted; the caller puts it in a queue."""
        self.moves += 1
        self._leave_queue(sequence)

    def end_prefill(self, sequence: Sequence) -> None:
        """Its last known token is all it has to compute now, or less."""
        self.prefilling.pop(sequence.seq, None)

    # --- ending -------------------------------------------------------------------------------------------------------

    def finish(
        self,
        sequence: Sequence,
        reason: FinishReason,
        cause: int = 0,
        stop_reason: str | int | None = None,
        message: str = "",
    ) -> None:
        """End one sequence and give its blocks back; the last one completes the request."""
        group = self.groups[sequence.request.id]
        sequence.finish_reason, sequence.stop_reason = reason, stop_reason
        finished = self.journal.add(
            Finished,
            cause or sequence.last_event,
            seq=sequence.seq,
            request_id=sequence.request.id,
            reason=reason,
            generated=sequence.generated,
            stop_reason=stop_reason,
            message=message,
        )
        self.moves += 1
        self._leave_queue(sequence)
        sequence.status = Status.FINISHED
        self.kv.drop_swapped(sequence, finished)
        self.kv.release(sequence, finished)
        group.settle(sequence)
        if reason != "pruned":
            group.reasons[sequence.index] = reason
            group.generated += sequence.generated
        if not group.live and group.beams is None:
            self._complete(group, finished)

    def _complete(self, group: RequestGroup, cause: int, answer: list[int] | None = None, text: str = "") -> None:
        del self.groups[group.request.id]
        self.beam_searches -= group.beams is not None
        self.counters.completed += 1
        self.journal.add(
            Completed,
            cause,
            request_id=group.request.id,
            reasons=[group.reasons[index] for index in sorted(group.reasons)],
            prompt_tokens=len(group.prompt),
            cached_tokens=group.cached_tokens,
            generated=len(answer) if answer is not None else group.generated,
            preemptions=group.preemptions,
            recomputed_tokens=group.recomputed_tokens,
            swapped_blocks=group.swapped_blocks,
            answer=answer or [],
            answer_text=text,
        )

    def end_group(
        self, group: RequestGroup, reason: FinishReason, cause: int, message: str = "", text: str = ""
    ) -> None:
        """End everything that still belongs to a request. For a beam search ``text`` is its best answer's."""
        if group.beams is None:
            for sequence in list(group.live):
                self.finish(sequence, reason, cause, message=message)
            return
        best = group.beams.best(group.live)
        group.reasons[0] = reason
        for sequence in list(group.live):
            self.finish(sequence, "pruned", cause, message=message)
        self._complete(group, cause, best, text)

    def _leave_queue(self, sequence: Sequence) -> None:
        match sequence.status:
            case Status.RUNNING:
                self.running.remove(sequence)
                self.prefilling.pop(sequence.seq, None)
            case Status.WAITING:
                self.waiting.remove(sequence)
            case Status.SWAPPED:
                self.swapped.remove(sequence)
