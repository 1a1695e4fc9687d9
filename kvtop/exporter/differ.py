"""Takes the difference between what was told of a pool and what is, as events: the exporter's heart, and pure.

``observe`` is called at moments when a scheduler is at rest: before and after it schedules, after each preemption, and
after it took a step's output. Between two of these, blocks are either handed out or given back, never both; so what is
new in the tables, and the ends of the queue, tell everything, in time that grows with what changed and with the
requests that run, not with the pool. Counts are checked each time; when they do not fit, OutOfStep asks for a new
start.
"""

from __future__ import annotations

from array import array

from kvtop.engine.events import AnyEvent, EngineInfo
from kvtop.exporter.block_changes import BlockChanges
from kvtop.exporter.mirror import Mirror, MirroredRequest
from kvtop.exporter.reader import PoolReader, RequestEnd
from kvtop.exporter.request_changes import RequestChanges
from kvtop.exporter.teller import OutOfStep, Teller


class Differ:
    """``begin`` once, then ``observe``. After OutOfStep, ``begin`` again."""

    def __init__(self, reader: PoolReader, info: EngineInfo) -> None:
        self.mirror = Mirror(info)
        self.teller = Teller()
        self.step = 0
        self._reader = reader
        self._index: object = None
        self._attach()

    def _attach(self) -> None:
        self._blocks = BlockChanges(self.mirror, self._reader, self.teller)
        self._requests = RequestChanges(self.mirror, self._reader, self.teller, self._blocks)

    def begin(self) -> None:
        """Take the whole state over, without telling it as events. O(blocks). Sequences that were known keep their
        numbers, totals go on.

        Raises:
            OutOfStep: the server's own counts do not fit one another now.
        """
        reader, before = self._reader, self.mirror
        mirror = self.mirror = Mirror(before.info)
        mirror.counters, mirror.last_seq, mirror.admissions = before.counters, before.last_seq, before.admissions
        mirror.paused = before.paused
        self._attach()
        self.teller.take()
        self._index = reader.index
        mirror.refs[:] = array("I", reader.ref_counts())
        mirror.hashes[:] = array("Q", reader.block_hashes())
        mirror.put_last(list(reader.queue()))
        mirror.idle = mirror.refs.count(0)
        mirror.cached = sum(1 for refs, content in zip(mirror.refs, mirror.hashes, strict=True) if content and not refs)
        for request_id in [*reader.newest_first()][::-1]:
            known = before.requests.get(request_id)
            request = known or self._requests.make(request_id, self.step)
            mirror.requests[request_id] = request
            request.status = "waiting"
            request.table = []
            request.computed = request.indexed = 0
        for request_id, tokens, computed, preemptions, _, _ in reader.running():
            self._take_over(mirror.requests[request_id], tokens, computed, preemptions)
        if mirror.idle != reader.num_idle:
            raise OutOfStep(f"{mirror.idle:,} blocks have no holder, {reader.num_idle:,} stand in the queue")

    def _take_over(self, request: MirroredRequest, tokens: int, computed: int, preemptions: int) -> None:
        """A running request, whole."""
        mirror = self.mirror
        request.status = "running"
        request.table = self._reader.table(request.request_id, 0)
        request.tokens, request.preemptions = tokens, preemptions
        if not request.admitted_order:
            mirror.admissions += 1
            request.admitted_order = mirror.admissions
        for block in request.table:
            mirror.owners[block] = mirror.owners[block] or request.seq
        computed = min(computed, len(request.table) * mirror.info.block_size)
        if computed > 0:
            mirror.write(request, computed)
        while request.indexed < len(request.table) and mirror.hashes[request.table[request.indexed]]:
            request.indexed += 1
        self._requests.runs(request)

    @property
    def step_tokens(self) -> tuple[int, int]:
        """Prefill and decode tokens that the last observation told."""
        return self._requests.prefill_tokens, self._requests.decode_tokens

    def has_news(self) -> bool:
        """Whether an observation between two steps could tell anything, in O(1)."""
        reader, mirror = self._reader, self.mirror
        return (
            reader.num_idle != mirror.idle
            or reader.num_alive != len(mirror.requests)
            or reader.index is not self._index
        )

    def observe(self) -> list[AnyEvent]:
        """What happened since the last time, in an order that can be applied.

        Raises:
            OutOfStep: the difference cannot be told.
        """
        requests, size = self._requests, self.mirror.info.block_size
        if self._reader.index is not self._index:
            self._index = self._reader.index
            self._blocks.clear_index()
            for request in requests.running.values():
                request.indexed = 0
        requests.welcome(self.step)
        fills = self.mirror.fills
        decoded: list[MirroredRequest] = []
        sampled: list[int] = []
        rows: list[tuple[MirroredRequest, int, int]] = []
        grown: list[tuple[MirroredRequest, int, int, int]] = []
        went_on = 0
        for request_id, tokens, computed, preemptions, held, newest in self._reader.running():
            known = requests.running.get(request_id)
            if known is None or known.preemptions != preemptions:
                grown.append((self.mirror.requests[request_id], tokens, preemptions, held))
                continue
            request = known
            went_on += 1
            told = len(request.table)
            by_one = tokens == request.tokens + 1 and computed == request.computed + 1
            if by_one and held == told and computed > request.high_water:
                decoded.append(request)  # one token more: what most requests do in most steps
                sampled.append(newest)
                fills[request.table[request.computed // size]] = request.computed % size + 1
                request.tokens, request.computed = tokens, computed
            elif tokens != request.tokens or computed > request.computed:
                rows.append((request, tokens, computed))
            if held != told or request.indexed < tokens // size:
                grown.append((request, tokens, preemptions, held))
        over: list[RequestEnd] = []
        if went_on != len(requests.running) or len(self.mirror.requests) != self._reader.num_alive:
            over = [self._reader.end(name) for name in self.mirror.requests if not self._reader.is_alive(name)]
            rows += [(self.mirror.requests[end.request_id], end.tokens, end.computed) for end in over]
        for name, request in requests.preempted.items():  # tokens that were under way when it lost its blocks
            if self._reader.is_alive(name) and self._reader.tokens(name) != request.tokens:
                rows.append((request, self._reader.tokens(name), 0))
        requests.advance(decoded, sampled, rows)
        for end in over:
            requests.end(end)
        if went_on != len(requests.running):
            self._preempt({request.request_id: preemptions for request, _, preemptions, _ in grown})
        for request, tokens, preemptions, held in grown:
            self._grow(request, tokens, preemptions, held)
        return self._told()

    def observe_growth(self) -> list[AnyEvent]:
        """The same, right after scheduling: blocks were handed out, and nothing else was done. Looks at less.

        Raises:
            OutOfStep: the difference cannot be told.
        """
        reader, requests = self._reader, self._requests
        if reader.num_alive != len(self.mirror.requests) or reader.index is not self._index:
            return self.observe()
        for request_id, tokens, _, preemptions, held, _ in reader.grown(requests.tables):
            self._grow(self.mirror.requests[request_id], tokens, preemptions, held)
        return self._told()

    def _told(self) -> list[AnyEvent]:
        self._blocks.requeue()
        if self.mirror.idle != self._reader.num_idle:
            raise OutOfStep(f"{self._reader.num_idle:,} blocks are idle, {self.mirror.idle:,} were told")
        return self.teller.take()

    def _preempt(self, arrivals: dict[str, int]) -> None:
        """Requests that were told as running and do not run now, or run again: ``arrivals`` are the latter's counts."""
        run = {request_id for request_id, *_ in self._reader.running()}
        for request_id, request in list(self._requests.running.items()):
            if request_id not in run or request.preemptions != arrivals.get(request_id, request.preemptions):
                request.queued_step = self.step
                self._requests.preempt(request)

    def _grow(self, request: MirroredRequest, tokens: int, preemptions: int, held: int) -> None:
        """A running request's table grew, perhaps from nothing; blocks of it became full."""
        start = len(request.table)
        if held < start:
            raise OutOfStep(f"{request.request_id} holds {held:,} blocks, {start:,} were told")
        blocks = self._reader.table(request.request_id, start) if held > start else []
        if request.status != "running":
            self._requests.admit(request, tokens, preemptions, blocks, self.step)
        self._blocks.grow(request, blocks, tokens)
        self._blocks.index_full(request)
