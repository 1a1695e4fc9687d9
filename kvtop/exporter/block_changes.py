"""Tells what changed about blocks: tables that grew, blocks that came free, the prefix index, the queue's order."""

from __future__ import annotations

from itertools import islice

from kvtop.engine import events as e
from kvtop.exporter.mirror import Mirror, MirroredRequest
from kvtop.exporter.reader import PoolReader
from kvtop.exporter.teller import OutOfStep, Teller


class BlockChanges:
    """Works on a mirror, tells through a teller, asks a reader."""

    def __init__(self, mirror: Mirror, reader: PoolReader, teller: Teller) -> None:
        self._mirror = mirror
        self._reader = reader
        self._teller = teller
        self._came_idle: list[int] = []
        """Blocks that came idle in this observation, in the order a watcher would queue them."""

    def leading_hits(self, blocks: list[int]) -> int:
        """How many of the first ``blocks`` were found in the prefix cache, or are held by others."""
        return next((i for i, block in enumerate(blocks) if not self._is_hit(block)), len(blocks))

    def _is_hit(self, block: int) -> bool:
        """Somebody holds it already, or it is cached and still has the content it had."""
        known = self._mirror.hashes[block]
        return self._mirror.refs[block] > 0 or (known != 0 and self._reader.block_hash(block) == known)

    def grow(self, request: MirroredRequest, blocks: list[int], tokens: int) -> None:
        """``blocks`` are new at the end of a request's table, which holds ``tokens`` now."""
        at = 0
        while at < len(blocks):
            hit = self._is_hit(blocks[at])
            stop = at + 1
            while stop < len(blocks) and self._is_hit(blocks[stop]) == hit:
                stop += 1
            (self._hit if hit else self._allocate)(request, blocks[at:stop], tokens)
            at = stop

    def _hit(self, request: MirroredRequest, blocks: list[int], tokens: int) -> None:
        mirror = self._mirror
        for block in blocks:
            mirror.hold(block, request.seq)
        request.table += blocks
        request.computed = len(request.table) * mirror.info.block_size
        resumed = request.preemptions > 0
        if resumed:
            mirror.counters.resumed_hit_tokens += request.computed
        else:
            mirror.counters.prefix_hit_tokens += request.computed
        self._teller.tell(
            e.Hit(
                id=self._teller.next_id(),
                seq=request.seq,
                runs=e.to_runs(blocks),
                tokens=request.computed,
                queried=tokens,
                resumed=resumed,
            )
        )
        self._note_peak()

    def _allocate(self, request: MirroredRequest, blocks: list[int], tokens: int) -> None:
        mirror, teller = self._mirror, self._teller
        evicted = [block for block in blocks if mirror.hashes[block]]
        if evicted:
            for block in evicted:
                mirror.evict(block)
            mirror.counters.evicted_blocks += len(evicted)
            teller.tell(e.Evicted(id=teller.next_id(), runs=e.to_runs(evicted)))
        free, cached = mirror.free, mirror.cached
        for block in blocks:
            mirror.take(block, request.seq)
        request.table += blocks
        teller.tell(
            e.Allocated(
                id=teller.next_id(),
                seq=request.seq,
                runs=e.to_runs(blocks),
                tokens=tokens,
                held=len(request.table),
                free=free,
                cached=cached,
            )
        )
        self._note_peak()

    def _note_peak(self) -> None:
        active = self._mirror.info.num_blocks - self._mirror.idle
        self._mirror.counters.peak_active_blocks = max(self._mirror.counters.peak_active_blocks, active)

    def index_full(self, request: MirroredRequest) -> None:
        """Blocks of a request's table that entered the prefix index."""
        hashes, table = self._mirror.hashes, request.table
        first = request.indexed
        while request.indexed < len(table):
            block = table[request.indexed]
            content = self._reader.block_hash(block)
            if not content:
                break
            if hashes[block] != content:
                hashes[block] = content
            elif request.indexed == first:
                first += 1  # told already: it was hit, or belongs to others too
            request.indexed += 1
        if request.indexed > first:
            blocks = table[first : request.indexed]
            self._teller.tell(
                e.Cached(
                    id=self._teller.next_id(),
                    seq=request.seq,
                    logical=first,
                    runs=e.to_runs(blocks),
                    hashes=[hashes[block] for block in blocks],
                    parent=hashes[table[first - 1]] if first else 0,
                )
            )

    def free(self, request: MirroredRequest, cause: int) -> None:
        """A request gave up its table."""
        table, request.table = request.table, []
        if not table:
            return
        idle = self._mirror.release(table)
        to_cached = sum(1 for block in idle if self._mirror.hashes[block])
        self._came_idle += idle
        self._teller.tell(
            e.Freed(
                id=self._teller.next_id(),
                cause=cause,
                seq=request.seq,
                runs=e.to_runs(table),
                to_free=len(idle) - to_cached,
                to_cached=to_cached,
            )
        )

    def clear_index(self) -> None:
        """The prefix index was emptied. A server does that between steps, and no block changes its place for it."""
        mirror, teller = self._mirror, self._teller
        queue = list(self._reader.queue())
        emptied = [block for block in queue if mirror.refs[block] == 0 and mirror.hashes[block]]
        unindexed = sum(1 for refs, content in zip(mirror.refs, mirror.hashes, strict=True) if refs and content)
        for block in emptied:
            mirror.fills[block] = 0
        for block in range(len(mirror.hashes)):
            mirror.hashes[block] = 0
        mirror.cached = 0
        mirror.put_last(queue)
        teller.tell(
            e.CacheCleared(id=teller.next_id(), runs=e.to_runs(emptied), unindexed=unindexed),
            e.Requeued(id=teller.next_id(), front=[], back=e.to_runs(queue)),
        )

    def requeue(self) -> None:
        """Where the server queued what came idle, if that is not where a watcher would have put it.

        Raises:
            OutOfStep: what came idle does not stand at the ends of the queue.
        """
        if not self._came_idle:
            return
        came, self._came_idle = self._came_idle, []
        fresh = set(came)
        back = _leading(islice(self._reader.queue_backwards(), len(fresh)), fresh)[::-1]
        front = _leading(islice(self._reader.queue(), len(fresh) - len(back)), fresh)
        if len(front) + len(back) != len(fresh):
            ends = len(front) + len(back)
            raise OutOfStep(f"{len(fresh):,} blocks came idle, {ends:,} of them stand at the ends of the queue")
        at_back = set(back)
        moved = back if [block for block in came if block in at_back] != back else []
        if front or moved:
            self._mirror.put_in_front(front)
            self._mirror.put_last(moved)
            self._teller.tell(e.Requeued(id=self._teller.next_id(), front=e.to_runs(front), back=e.to_runs(moved)))


def _leading(blocks: islice[int], wanted: set[int]) -> list[int]:
    """Blocks up to the first that is not wanted."""
    found = []
    for block in blocks:
        if block not in wanted:
            break
        found.append(block)
    return found
