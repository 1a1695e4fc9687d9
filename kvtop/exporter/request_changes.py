"""Tells what became of requests: queued, admitted, advanced, preempted, ended."""

from __future__ import annotations

from kvtop.engine import events as e
from kvtop.exporter.block_changes import BlockChanges
from kvtop.exporter.mirror import Mirror, MirroredRequest
from kvtop.exporter.reader import PoolReader, RequestEnd
from kvtop.exporter.teller import Teller


class RequestChanges:
    """Works on a mirror, tells through a teller, asks a reader; ``running`` are the requests told as running."""

    def __init__(self, mirror: Mirror, reader: PoolReader, teller: Teller, blocks: BlockChanges) -> None:
        self.running: dict[str, MirroredRequest] = {}
        self.tables: dict[str, list[int]] = {}
        """Tables of the same."""
        self.preempted: dict[str, MirroredRequest] = {}
        """Requests that wait to run again."""
        self.prefill_tokens = 0
        """Of those that the last Advanced told as computed."""
        self.decode_tokens = 0
        self._mirror = mirror
        self._reader = reader
        self._teller = teller
        self._blocks = blocks

    def make(self, request_id: str, step: int) -> MirroredRequest:
        """A record for a request, with the next sequence number."""
        facts = self._reader.facts(request_id)
        self._mirror.last_seq += 1
        return MirroredRequest(
            self._mirror.last_seq,
            request_id,
            facts.prompt_tokens,
            facts.max_tokens,
            facts.priority,
            tokens=facts.prompt_tokens,
            queued_step=step,
        )

    def welcome(self, step: int) -> None:
        """Requests that are new."""
        known = self._mirror.requests
        fresh = []
        for request_id in self._reader.newest_first():
            if request_id in known:
                break
            fresh.append(request_id)
        for request_id in reversed(fresh):
            request = known[request_id] = self.make(request_id, step)
            self._mirror.counters.requests += 1
            self._teller.tell(
                e.Queued(
                    id=self._teller.next_id(),
                    seq=request.seq,
                    request_id=request_id,
                    prompt_tokens=request.prompt_tokens,
                    max_tokens=request.max_tokens,
                    priority=request.priority,
                )
            )

    def runs(self, request: MirroredRequest) -> None:
        """A request is told as running from now on."""
        self.preempted.pop(request.request_id, None)
        self.running[request.request_id] = request
        self.tables[request.request_id] = request.table

    def _runs_no_more(self, request_id: str) -> None:
        self.preempted.pop(request_id, None)
        self.running.pop(request_id, None)
        self.tables.pop(request_id, None)

    def admit(self, request: MirroredRequest, tokens: int, preemptions: int, blocks: list[int], step: int) -> None:
        """A waiting request runs; ``blocks`` will be its table."""
        mirror, counters = self._mirror, self._mirror.counters
        cached_tokens = self._blocks.leading_hits(blocks) * mirror.info.block_size
        queried = tokens if mirror.info.prefix_cache else 0
        mirror.admissions += 1
        request.status = "running"
        request.preemptions = preemptions
        request.admitted_order = mirror.admissions
        self.runs(request)
        told = {
            "seq": request.seq,
            "tokens": tokens,
            "cached_tokens": cached_tokens,
            "needed": len(blocks),
            "free": mirror.free,
            "cached": mirror.cached,
            "running": len(self.running),
            "waited_steps": step - request.queued_step,
        }
        if request.high_water:
            counters.resumed_queried_tokens += queried
        else:
            request.cached_tokens = cached_tokens
            counters.prompt_tokens += request.prompt_tokens
            counters.prefix_queried_tokens += queried
        if preemptions:
            self._teller.tell(e.Resumed(id=self._teller.next_id(), mode="recompute", **told))
        else:
            self._teller.tell(e.Admitted(id=self._teller.next_id(), promised=0, watermark_blocks=0.0, **told))

    def advance(
        self, decoded: list[MirroredRequest], sampled: list[int], rows: list[tuple[MirroredRequest, int, int]]
    ) -> None:
        """What was computed and sampled: ``decoded`` requests each computed one token and sampled that in ``sampled``,
        as is mirrored already; the others have ``(request, tokens, computed)`` now."""
        mirror, size = self._mirror, self._mirror.info.block_size
        seqs = [request.seq for request in decoded]
        counts = [1] * len(decoded)
        recomputed = 0
        self.prefill_tokens, self.decode_tokens = 0, len(decoded)
        mirror.counters.computed_tokens += len(decoded)
        mirror.counters.generated_tokens += len(decoded)
        for request, tokens, computed in rows:
            computed = min(computed, len(request.table) * size)
            count = max(0, computed - request.computed)
            gained = list(self._reader.new_tokens(request.request_id, max(0, tokens - request.tokens)))
            if count:
                again = max(0, min(computed, request.high_water) - request.computed)
                request.recomputed_tokens += again
                recomputed += again
                if request.computed < max(request.prompt_tokens, request.high_water):
                    self.prefill_tokens += count
                else:
                    self.decode_tokens += count
                mirror.write(request, computed)
            if count or gained:
                more = max(0, len(gained) - 1)
                seqs += [request.seq] * (1 + more)
                counts += [count] + [0] * more
                sampled += gained or [-1]
            request.tokens += len(gained)
            mirror.counters.computed_tokens += count
            mirror.counters.generated_tokens += len(gained)
        if seqs:
            mirror.counters.recomputed_tokens += recomputed
            self._teller.tell(
                e.Advanced(
                    id=self._teller.next_id(),
                    seqs=seqs,
                    counts=counts,
                    sampled=sampled,
                    texts=[""] * len(seqs),
                    recomputed=recomputed,
                )
            )

    def preempt(self, request: MirroredRequest) -> None:
        """A running request lost its blocks."""
        self._blocks.index_full(request)
        refs = self._mirror.refs
        self._runs_no_more(request.request_id)
        self.preempted[request.request_id] = request
        request.preemptions += 1
        preempted = e.Preempted(
            id=self._teller.next_id(),
            seq=request.seq,
            rule=self._mirror.info.victim,
            mode="recompute",
            needed_by=0,
            held=len(request.table),
            freed=sum(1 for block in request.table if refs[block] == 1),
            tokens=request.computed,
            preemptions=request.preemptions,
        )
        self._teller.tell(preempted)
        self._mirror.counters.preemptions += 1
        request.status = "waiting"
        request.high_water = max(request.high_water, request.computed)
        request.computed = request.indexed = 0
        self._blocks.free(request, preempted.id)

    def end(self, end: RequestEnd) -> None:
        """A request is over, and its blocks are free."""
        request_id = end.request_id
        request = self._mirror.requests.pop(request_id)
        self._blocks.index_full(request)  # the last step may have filled one
        self._runs_no_more(request_id)
        finished = e.Finished(
            id=self._teller.next_id(),
            seq=request.seq,
            request_id=request_id,
            reason=end.reason,
            generated=request.tokens - request.prompt_tokens,
            stop_reason=end.stop_reason,
        )
        self._teller.tell(finished)
        self._reader.forget(request_id)
        self._blocks.free(request, finished.id)
        self._mirror.counters.completed += 1
        self._teller.tell(
            e.Completed(
                id=self._teller.next_id(),
                cause=finished.id,
                request_id=request_id,
                reasons=[end.reason],
                prompt_tokens=request.prompt_tokens,
                cached_tokens=request.cached_tokens,
                generated=request.tokens - request.prompt_tokens,
                preemptions=request.preemptions,
                recomputed_tokens=request.recomputed_tokens,
                swapped_blocks=0,
            )
        )
