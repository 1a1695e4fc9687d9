"""The self-check: every rule that must hold between two steps, looked up in the structures themselves.

It believes no counter: free and cached queues are walked both ways, references are counted from the tables, and content
is compared along the prefix chain. O(pool + tables); tests run it after every step, ``--check`` turns it on in the
program. A broken rule raises PoolFault with the rule's name, the blocks and the sequences.
"""

from __future__ import annotations

from collections import defaultdict

from kvtop.engine.blocks import BlockPool, BlockQueue
from kvtop.engine.scheduler import Scheduler
from kvtop.engine.sequences import Sequence, Status
from kvtop.engine.tables import BlockTable, blocks_for


class PoolFault(AssertionError):
    """A rule of the pool is broken. ``rule``, ``blocks`` and ``sequences`` say which and where."""

    def __init__(self, rule: str, message: str, blocks: list[int], sequences: list[int]) -> None:
        self.rule, self.blocks, self.sequences = rule, blocks, sequences
        super().__init__(f"{rule}: {message} (blocks {blocks[:8]}, sequences {sequences[:8]})")


def check(scheduler: Scheduler) -> None:
    """Raise PoolFault for the first broken rule.

    Raises:
        PoolFault: with the rule, the blocks and the sequences it concerns.
    """
    unfinished = [sequence for group in scheduler.roster.groups.values() for sequence in group.live]
    _check_queues(scheduler, unfinished)
    _check_pool("pool", scheduler.kv.pool, [(s.seq, s.table) for s in unfinished])
    _check_pool("swap space", scheduler.kv.swap, [(s.seq, s.swap_table) for s in unfinished])
    for sequence in unfinished:
        _check_holding(scheduler, sequence)
    _check_content(scheduler, unfinished)
    _check_index(scheduler.kv.pool, unfinished)


def check_drained(scheduler: Scheduler) -> None:
    """With no unfinished request nothing may be held.

    Raises:
        PoolFault: a block is still active.
    """
    for name, pool in (("pool", scheduler.kv.pool), ("swap space", scheduler.kv.swap)):
        active = [block.block_id for block in pool.blocks if block.ref_count]
        if active:
            raise PoolFault("drained", f"blocks of the {name} are active without any request", active, [])


def _check_queues(scheduler: Scheduler, unfinished: list[Sequence]) -> None:
    for status, queue in (
        (Status.RUNNING, scheduler.roster.running),
        (Status.WAITING, scheduler.roster.waiting),
        (Status.SWAPPED, scheduler.roster.swapped),
    ):
        here = [sequence.seq for sequence in queue]
        there = [sequence.seq for sequence in unfinished if sequence.status is status]
        if sorted(here) != sorted(there):
            raise PoolFault("queues", f"the {status.value} queue holds {here}, by status it is {there}", [], here)
    if len(scheduler.roster.running) > 0:
        orders = [sequence.admitted_order for sequence in scheduler.roster.running]
        if orders != sorted(orders):
            raise PoolFault("queues", f"running is not in admission order: {orders}", [], [])
    prefilling = sorted(scheduler.roster.prefilling)
    expected = sorted(sequence.seq for sequence in scheduler.roster.running if sequence.to_compute > 1)
    if prefilling != expected:
        raise PoolFault("queues", f"in prefill are {expected}, the roster says {prefilling}", [], prefilling)


def _check_pool(name: str, pool: BlockPool, tables: list[tuple[int, BlockTable]]) -> None:
    free, cached = _walk(name, "free", pool.free), _walk(name, "cached", pool.cached)
    active = [block.block_id for block in pool.blocks if block.ref_count > 0]
    if sorted(free + cached + active) != list(range(pool.num_blocks)):
        repeated = sorted(set(free) & set(cached) | set(free) & set(active) | set(cached) & set(active))
        raise PoolFault(
            "partition",
            f"free {len(free)} + cached {len(cached)} + active {len(active)} do not partition the {name} of "
            f"{pool.num_blocks}",
            repeated,
            [],
        )
    holders: defaultdict[int, list[int]] = defaultdict(list)
    for seq, table in tables:
        if len(set(table.block_ids)) != len(table.block_ids):
            raise PoolFault("once a table", f"a block stands twice in a table of the {name}", table.block_ids, [seq])
        for block in table.block_ids:
            holders[block].append(seq)
    for block_id in range(pool.num_blocks):
        if pool.ref_count(block_id) != len(holders[block_id]):
            raise PoolFault(
                "ref count",
                f"block {block_id} of the {name} has ref count {pool.ref_count(block_id)}, "
                f"{len(holders[block_id])} tables hold it",
                [block_id],
                holders[block_id],
            )
    for block_id in free:
        if pool.index.key_of(block_id) is not None:
            raise PoolFault("index", f"free block {block_id} is still in the prefix index", [block_id], [])
    for block_id in cached:
        if pool.index.key_of(block_id) is None:
            raise PoolFault("index", f"cached block {block_id} is not in the prefix index", [block_id], [])


def _walk(name: str, which: str, queue: BlockQueue) -> list[int]:
    forward, backward = list(queue), list(reversed(queue))
    if forward != backward[::-1] or len(set(forward)) != len(forward) or len(forward) != queue.size:
        raise PoolFault(
            "queue links",
            f"the {which} queue of the {name} counts {queue.size}, forward {len(forward)}, backward {len(backward)}",
            forward,
            [],
        )
    return forward


def _check_holding(scheduler: Scheduler, sequence: Sequence) -> None:
    held = len(sequence.table)
    if sequence.status is not Status.RUNNING:
        if held:
            raise PoolFault(
                "holding",
                f"sequence {sequence.seq} is {sequence.status.value} but holds blocks",
                sequence.table.block_ids,
                [sequence.seq],
            )
        swapped = len(sequence.swap_table)
        if (sequence.status is Status.SWAPPED) != (swapped > 0):
            raise PoolFault(
                "holding",
                f"sequence {sequence.seq} is {sequence.status.value} with {swapped} blocks in the swap space",
                [],
                [sequence.seq],
            )
        return
    size = scheduler.config.block_size
    least = blocks_for(sequence.computed, size)
    most = max(least, scheduler.kv.blocks_to_hold(sequence, max(sequence.computed, len(sequence.tokens))))
    if not least <= held <= most:
        raise PoolFault(
            "holding",
            f"sequence {sequence.seq} holds {held} blocks for {sequence.computed} computed tokens, expected {least} "
            f"to {most}",
            sequence.table.block_ids,
            [sequence.seq],
        )
    if sequence.computed >= len(sequence.tokens):
        raise PoolFault("progress", f"sequence {sequence.seq} has no token left to compute", [], [sequence.seq])


def _check_content(scheduler: Scheduler, unfinished: list[Sequence]) -> None:
    """A block that two tables hold must mean the same tokens at the same positions in both."""
    size = scheduler.config.block_size
    meaning: dict[int, tuple[int, int, list[int]]] = {}
    for sequence in unfinished:
        for logical, block in enumerate(sequence.table.block_ids):
            content = sequence.tokens[: min((logical + 1) * size, sequence.computed)]
            if block not in meaning:
                meaning[block] = (sequence.seq, logical, content)
                continue
            other, other_logical, other_content = meaning[block]
            common = min(len(content), len(other_content))
            if logical != other_logical or content[:common] != other_content[:common]:
                raise PoolFault(
                    "content",
                    f"block {block} is logical {other_logical} of sequence {other} and logical {logical} of sequence "
                    f"{sequence.seq} with different tokens",
                    [block],
                    [other, sequence.seq],
                )


def _check_index(pool: BlockPool, unfinished: list[Sequence]) -> None:
    for block_id in pool.index.blocks():
        key = pool.index.key_of(block_id)
        assert key is not None
        if pool.index.get(key) != block_id or len(key.tokens) != pool.block_size:
            raise PoolFault("index", f"block {block_id} is indexed under a key that names another", [block_id], [])
    for sequence in unfinished:
        for logical, block_id in enumerate(sequence.table.block_ids):
            key = pool.index.key_of(block_id)
            if key is None:
                continue
            chain: list[int] = []
            depth = 0
            while key is not None:
                chain[:0] = key.tokens
                depth, key = depth + 1, key.parent
            full = (logical + 1) * pool.block_size
            if depth != logical + 1 or sequence.computed < full or chain != sequence.tokens[:full]:
                raise PoolFault(
                    "index",
                    f"block {block_id} is indexed as {depth} blocks deep, but it is logical {logical} of sequence "
                    f"{sequence.seq} with {sequence.computed} computed tokens",
                    [block_id],
                    [sequence.seq],
                )
