"""KV memory of sequences: every change of a block table, with the event that tells of it and the copy it needs.

The scheduler decides who gets memory; this decides nothing, it carries out. A method that takes blocks assumes the
caller saw ``can_take`` (or ``can_swap_out``); it then succeeds whole. Copies are not made here but listed in
``transfers``, in the order in which the runner must make them before it writes the step's KV.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from kvtop.engine.blocks import BlockPool, distinct
from kvtop.engine.config import SchedulerConfig
from kvtop.engine.events import (
    Allocated,
    CacheCleared,
    Cached,
    Copied,
    Counters,
    Evicted,
    Forked,
    Freed,
    Hit,
    Shared,
    Shortage,
    SwappedIn,
    SwappedOut,
    to_runs,
)
from kvtop.engine.journal import Journal
from kvtop.engine.plan import Transfer
from kvtop.engine.policies import allocation_policy
from kvtop.engine.prefix import PrefixKey
from kvtop.engine.sequences import Sequence, common_prefix_len
from kvtop.engine.tables import blocks_for


@dataclass(slots=True, frozen=True)
class Prefix:
    """Blocks a sequence can take over instead of computing them: of a sibling (``source`` is its id) or of the prefix
    cache (``source`` 0). ``tokens`` may end inside the last block only when a sibling is the source."""

    blocks: list[int]
    tokens: int
    source: int = 0


class KvManager:
    """The block pool, the swap space and the policy by which tables grow."""

    def __init__(
        self, config: SchedulerConfig, journal: Journal, counters: Counters, pool: BlockPool | None = None
    ) -> None:
        self.block_size = config.block_size
        self.pool = pool or BlockPool(config.num_blocks, config.block_size)
        self.swap = BlockPool(config.swap_blocks, config.block_size)
        self.policy = allocation_policy(config)
        self.prefix_cache = config.prefix_cache and not self.policy.contiguous
        self.transfers: list[Transfer] = []
        self._journal = journal
        self._counters = counters

    # --- what would be needed -----------------------------------------------------------------------------------------

    def blocks_to_hold(self, sequence: Sequence, tokens: int) -> int:
        return self.policy.blocks_to_hold(sequence, tokens)

    def blocks_needed(self, sequence: Sequence, tokens: int) -> int:
        """Blocks to take so that the sequence can write positions ``computed`` to ``tokens - 1``."""
        growth = max(0, self.policy.blocks_to_hold(sequence, tokens) - len(sequence.table))
        return growth + self._must_copy(sequence)

    def slots_held(self, sequence: Sequence) -> int:
        """Slots of the blocks its table holds, filled or not."""
        return len(sequence.table) * self.block_size

    def has_room(self, sequence: Sequence, tokens: int) -> bool:
        """Whether positions ``computed`` to ``tokens - 1`` can be written as the table stands: most decodes can."""
        table = sequence.table.block_ids
        if self.policy.blocks_to_hold(sequence, tokens) > len(table):
            return False
        logical, filled = divmod(sequence.computed, self.block_size)
        return not filled or self.pool.blocks[table[logical]].ref_count == 1

    def _must_copy(self, sequence: Sequence) -> bool:
        """Whether its next write goes into a partly filled block that somebody else holds too."""
        logical, filled = divmod(sequence.computed, self.block_size)
        return filled > 0 and self.pool.ref_count(sequence.table.block_ids[logical]) > 1

    def blocks_to_admit(self, sequence: Sequence, prefix: Prefix) -> int:
        """Blocks an admission takes away from free and cached ones, until all tokens known so far have KV."""
        growth = self.policy.blocks_to_hold(sequence, len(sequence.tokens)) - len(prefix.blocks)
        revived = sum(1 for block in prefix.blocks if self.pool.ref_count(block) == 0)
        copies = prefix.tokens % self.block_size != 0
        return growth + revived + copies

    def can_take(self, blocks: int) -> bool:
        """Whether that many blocks can be had without taking one from a sequence."""
        return self.pool.has_hole(blocks) if self.policy.contiguous else blocks <= self.pool.num_available

    # --- prefixes -----------------------------------------------------------------------------------------------------

    def find_prefix(self, sequence: Sequence, siblings: Seq[Sequence]) -> Prefix:
        """The longest computed prefix it can take over, leaving at least one token to compute."""
        best = Prefix([], 0)
        if self.policy.contiguous:
            return best
        limit = len(sequence.tokens) - 1
        if self.prefix_cache:
            blocks = self.pool.index.match(self._keys(sequence, limit // self.block_size))
            best = Prefix(blocks, len(blocks) * self.block_size)
        for sibling in siblings:
            tokens = min(sibling.computed, limit, common_prefix_len(sequence, sibling))
            if tokens > best.tokens:
                best = Prefix(sibling.table.block_ids[: blocks_for(tokens, self.block_size)], tokens, sibling.seq)
        return best

    def _keys(self, sequence: Sequence, count: int) -> list[PrefixKey]:
        """Prefix keys of its first ``count`` blocks."""
        keys, size = sequence.prefix_keys, self.block_size
        for i in range(len(keys), count):
            parent = keys[-1] if keys else None
            keys.append(PrefixKey(parent, tuple(sequence.tokens[i * size : (i + 1) * size]), sequence.request.salt))
        return keys[:count]

    def adopt(self, sequence: Sequence, prefix: Prefix, cause: int) -> None:
        """Take over a prefix that ``find_prefix`` found."""
        resumed = sequence.high_water > 0  # also a fork that had to wait: its prompt was looked up once already
        if self.prefix_cache:
            self._count_lookup(len(sequence.tokens), 0 if prefix.source else prefix.tokens, resumed)
        if not prefix.blocks:
            return
        for block in prefix.blocks:
            self.pool.hold(block, sequence.seq)
        self._note_peak()
        sequence.table.block_ids.extend(prefix.blocks)
        sequence.computed = prefix.tokens
        runs = to_runs(prefix.blocks)
        if prefix.source:
            self._journal.add(Shared, cause, seq=sequence.seq, source=prefix.source, runs=runs, tokens=prefix.tokens)
        else:
            queried = len(sequence.tokens)
            self._journal.add(
                Hit, cause, seq=sequence.seq, runs=runs, tokens=prefix.tokens, queried=queried, resumed=resumed
            )

    def _count_lookup(self, queried: int, hit: int, resumed: bool) -> None:
        counters = self._counters
        if resumed:
            counters.resumed_queried_tokens += queried
            counters.resumed_hit_tokens += hit
        else:
            counters.prefix_queried_tokens += queried
            counters.prefix_hit_tokens += hit

    def share_all(self, parent: Sequence, child: Sequence, cause: int) -> None:
        """A fork: the child holds every block that has KV of the parent's."""
        blocks = parent.table.block_ids[: blocks_for(parent.computed, self.block_size)]
        for block in blocks:
            self.pool.hold(block, child.seq)
        child.table.block_ids.extend(blocks)
        child.computed = parent.computed
        child.prefix_keys = parent.prefix_keys[: parent.computed // self.block_size]
        child.indexed_blocks, child.offers_blocks = parent.indexed_blocks, parent.offers_blocks
        self._journal.add(Shared, cause, seq=child.seq, source=parent.seq, runs=to_runs(blocks), tokens=parent.computed)

    def report_fork(self, parent: Sequence, child: Sequence, runs_now: bool, needed: int, cause: int) -> int:
        return self._journal.add(
            Forked,
            cause,
            seq=child.seq,
            parent=parent.seq,
            request_id=child.request.id,
            index=child.index,
            tokens=len(child.tokens),
            runs_now=runs_now,
            needed=needed,
            free=self.pool.num_free,
            cached=self.pool.num_cached,
        )

    def index_full_blocks(self, sequence: Sequence, cause: int) -> None:
        """Offer the blocks that this step filled to the prefix index; only ever called once their KV is computed."""
        if not (self.prefix_cache and sequence.offers_blocks):
            return
        full = sequence.computed // self.block_size
        first = sequence.indexed_blocks
        if first >= full:
            return
        keys = self._keys(sequence, full)
        run: list[int] = []
        for logical in range(first, full + 1):
            if logical < full and self.pool.index_block(keys[logical], sequence.table.block_ids[logical]):
                run.append(logical)
            elif run:
                self._report_cached(sequence, run, keys, cause)
                run = []
        sequence.indexed_blocks = full

    def _report_cached(self, sequence: Sequence, logical: list[int], keys: list[PrefixKey], cause: int) -> None:
        parent = keys[logical[0]].parent
        self._journal.add(
            Cached,
            cause,
            seq=sequence.seq,
            logical=logical[0],
            runs=to_runs(sequence.table.block_ids[i] for i in logical),
            hashes=[keys[i].digest for i in logical],
            parent=parent.digest if parent else 0,
            token_ids=sequence.tokens[logical[0] * self.block_size : (logical[-1] + 1) * self.block_size],
        )

    def clear_cache(self, running: Seq[Sequence], cause: int) -> None:
        """Empty the prefix index. Blocks that running sequences hold now are not offered to it again: without their
        ancestors in the index nobody could find them."""
        freed, unindexed = self.pool.clear_index()
        for sequence in running:
            sequence.offers_blocks = False
        self._journal.add(CacheCleared, cause, runs=to_runs(freed), unindexed=unindexed)

    # --- growing and letting go ---------------------------------------------------------------------------------------

    def report_shortage(self, sequence: Sequence, tokens: int, needed: int, cause: int) -> int:
        return self._journal.add(
            Shortage,
            cause,
            seq=sequence.seq,
            needed=needed,
            free=self.pool.num_free,
            cached=self.pool.num_cached,
            tokens=tokens,
            held=len(sequence.table),
        )

    def grow(self, sequence: Sequence, tokens: int, cause: int, shortage: int = 0) -> None:
        """Make positions ``computed`` to ``tokens - 1`` writable: copy a shared, partly filled block, append blocks.
        ``shortage`` is the id of the Shortage that was already reported for it, if one was."""
        must_copy = self._must_copy(sequence)
        growth = max(0, self.policy.blocks_to_hold(sequence, tokens) - len(sequence.table))
        if not growth + must_copy:
            return
        missing = growth + must_copy - self.pool.num_free
        if missing > 0 and not self.policy.contiguous:
            shortage = shortage or self.report_shortage(sequence, tokens, growth + must_copy, cause)
            evicted = self.pool.evict(missing)
            self._counters.evicted_blocks += missing
            self._journal.add(Evicted, shortage, runs=to_runs(evicted))
        cause = shortage or cause
        if must_copy:
            self._copy_on_write(sequence, cause)
        if growth:
            self._append(sequence, growth, tokens, cause)

    def _copy_on_write(self, sequence: Sequence, cause: int) -> None:
        logical, filled = divmod(sequence.computed, self.block_size)
        src = sequence.table.block_ids[logical]
        free, cached = self.pool.num_free, self.pool.num_cached
        (dst,) = self.pool.allocate(1, sequence.seq)
        self.pool.release([src])
        self._note_peak()
        sequence.table.block_ids[logical] = dst
        self.transfers.append(Transfer("copy", src, dst))
        self._counters.copy_on_write += 1
        self._journal.add(
            Copied,
            cause,
            seq=sequence.seq,
            src=src,
            dst=dst,
            logical=logical,
            tokens=filled,
            free=free,
            cached=cached,
        )

    def _append(self, sequence: Sequence, count: int, tokens: int, cause: int) -> None:
        free, cached = self.pool.num_free, self.pool.num_cached
        if self.policy.contiguous:
            blocks = self.pool.allocate_region(count, sequence.seq)
            if blocks is None:
                raise ValueError(f"no {count} free blocks lie side by side")
        else:
            blocks = self.pool.allocate(count, sequence.seq)
        self._note_peak()
        sequence.table.block_ids.extend(blocks)
        self._journal.add(
            Allocated,
            cause,
            seq=sequence.seq,
            runs=to_runs(blocks),
            tokens=tokens,
            held=len(sequence.table),
            free=free,
            cached=cached,
        )

    def _note_peak(self) -> None:
        counters = self._counters
        counters.peak_active_blocks = max(counters.peak_active_blocks, self.pool.num_active)

    def would_free(self, sequence: Sequence) -> int:
        """Blocks of its table that nobody else holds."""
        return sum(1 for block in sequence.table.block_ids if self.pool.ref_count(block) == 1)

    def release(self, sequence: Sequence, cause: int) -> int:
        """Give up the whole table; how many blocks nobody holds any more."""
        blocks, sequence.table.block_ids = sequence.table.block_ids, []
        filled, sequence.computed = sequence.computed, 0
        sequence.indexed_blocks = 0
        sequence.offers_blocks = True
        if not blocks:
            return 0
        to_free, to_cached = self.pool.release(blocks)
        self._journal.add(
            Freed,
            cause,
            seq=sequence.seq,
            runs=to_runs(blocks),
            to_free=to_free,
            to_cached=to_cached,
            reserved_slots=len(blocks) * self.block_size - filled if self.policy.contiguous else 0,
            filled_slots=filled,
        )
        return to_free + to_cached

    # --- swapping -----------------------------------------------------------------------------------------------------

    def can_swap_out(self, unit: Seq[Sequence]) -> bool:
        """Whether the swap space has a block for each distinct block with KV that the sequences hold."""
        return 0 < len(self._distinct_filled(unit)) <= self.swap.num_free

    def _distinct_filled(self, unit: Seq[Sequence]) -> list[int]:
        return distinct(block for sequence in unit for block in self._filled(sequence))

    def _filled(self, sequence: Sequence) -> list[int]:
        """The blocks that hold KV of the sequence (a reservation holds more)."""
        return sequence.table.block_ids[: blocks_for(sequence.computed, self.block_size)]

    def swap_out(self, unit: Seq[Sequence], cause: int) -> None:
        """Copy the KV of sequences that are preempted together to the swap space. What they share is copied once and
        stays shared there. Their tables are not released yet."""
        blocks = self._distinct_filled(unit)
        copy_of = dict(zip(blocks, self.swap.allocate(len(blocks), unit[0].seq), strict=True))
        self.transfers.extend(Transfer("swap_out", src, dst) for src, dst in copy_of.items())
        self._counters.swapped_blocks += len(blocks)
        taken: set[int] = set()
        for sequence in unit:
            sequence.swap_table.block_ids = [copy_of[block] for block in self._filled(sequence)]
            for block in sequence.swap_table.block_ids:
                if block in taken:
                    self.swap.hold(block, sequence.seq)
            taken.update(sequence.swap_table.block_ids)
            sequence.swapped_tokens = sequence.computed
            sequence.swapped_blocks += len(sequence.swap_table)
            runs = to_runs(sequence.swap_table.block_ids)
            self._journal.add(SwappedOut, cause, seq=sequence.seq, swap_runs=runs, tokens=sequence.computed)

    def blocks_to_swap_in(self, unit: Seq[Sequence]) -> int:
        """Pool blocks needed to bring them back and compute all tokens they have."""
        if len(unit) == 1:
            return self.policy.blocks_to_hold(unit[0], len(unit[0].tokens))
        shared = len(distinct(block for sequence in unit for block in sequence.swap_table.block_ids))
        growth = sum(
            self.policy.blocks_to_hold(sequence, len(sequence.tokens)) - len(sequence.swap_table) for sequence in unit
        )
        partly_filled = [
            sequence.swap_table.block_ids[-1] for sequence in unit if sequence.swapped_tokens % self.block_size
        ]
        copies = len(partly_filled) - len(set(partly_filled))  # all but the last holder copy before they write
        return shared + growth + copies

    def swap_in(self, unit: Seq[Sequence], cause: int) -> None:
        """Bring swapped-out sequences back into newly allocated blocks; what they shared is shared again."""
        copy_of: dict[int, int] = {}
        mapped_by: dict[int, Sequence] = {}
        for sequence in unit:
            swapped = sequence.swap_table.block_ids
            known = [copy_of[block] for block in swapped if block in copy_of]
            if known:
                for block in known:
                    self.pool.hold(block, sequence.seq)
                sequence.table.block_ids.extend(known)
                source = mapped_by[swapped[len(known) - 1]].seq
                tokens = min(len(known) * self.block_size, sequence.swapped_tokens)
                self._journal.add(Shared, cause, seq=sequence.seq, source=source, runs=to_runs(known), tokens=tokens)
            self.grow(sequence, sequence.swapped_tokens, cause)
            for logical in range(len(known), len(swapped)):
                copy_of[swapped[logical]] = sequence.table.block_ids[logical]
                mapped_by[swapped[logical]] = sequence
                self.transfers.append(Transfer("swap_in", swapped[logical], sequence.table.block_ids[logical]))
            sequence.computed, sequence.swapped_tokens = sequence.swapped_tokens, 0
        for sequence in unit:
            runs = to_runs(sequence.swap_table.block_ids)
            self.swap.release(sequence.swap_table.block_ids)
            sequence.swap_table.block_ids = []
            self._journal.add(SwappedIn, cause, seq=sequence.seq, swap_runs=runs, tokens=sequence.computed)

    def drop_swapped(self, sequence: Sequence, cause: int) -> None:
        """A swapped-out sequence ends: give its blocks of the swap space back."""
        blocks, sequence.swap_table.block_ids = sequence.swap_table.block_ids, []
        if not blocks:
            return
        to_free, _ = self.swap.release(blocks)
        self._journal.add(
            Freed,
            cause,
            seq=sequence.seq,
            runs=to_runs(blocks),
            to_free=to_free,
            to_cached=0,
            space="swap",
            filled_slots=sequence.swapped_tokens,
        )
        sequence.swapped_tokens = 0
