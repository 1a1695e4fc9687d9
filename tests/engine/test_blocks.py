"""The block pool against a plain model of it: two lists and a table of reference counts."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kvtop.engine.blocks import BlockPool
from kvtop.engine.prefix import PrefixKey


class PoolMachine(RuleBasedStateMachine):
    """Tables take, share, index and release blocks at random; the model says what must be free, cached and in which
    order."""

    @initialize(num_blocks=st.integers(1, 9))
    def build(self, num_blocks: int) -> None:
        self.pool = BlockPool(num_blocks, 2)
        self.free = list(range(num_blocks))
        self.cached: list[int] = []
        self.refs = dict.fromkeys(range(num_blocks), 0)
        self.keys: dict[int, int] = {}
        self.tables: list[list[int]] = []

    @rule(count=st.integers(0, 9))
    def allocate(self, count: int) -> None:
        if count > len(self.free):
            with pytest.raises(ValueError, match=f"asked for {count} blocks, {len(self.free)} are free"):
                self.pool.allocate(count, owner=1)
            return
        taken = self.pool.allocate(count, owner=1)
        assert taken == self.free[:count], "free blocks are handed out in the order they came back"
        del self.free[:count]
        self.take(taken)

    @rule(count=st.integers(1, 9))
    def allocate_region(self, count: int) -> None:
        holes = [
            first
            for first in range(self.pool.num_blocks - count + 1)
            if all(b in self.free for b in range(first, first + count))
        ]
        taken = self.pool.allocate_region(count, owner=1)
        assert taken == (list(range(holes[0], holes[0] + count)) if holes else None)
        if taken:
            self.free = [block for block in self.free if block not in taken]
            self.take(taken)

    def take(self, blocks: list[int]) -> None:
        for block in blocks:
            self.refs[block] += 1
        if blocks:
            self.tables.append(blocks)

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def share(self, data: st.DataObject) -> None:
        table = data.draw(st.sampled_from(self.tables))
        for block in table:
            self.pool.hold(block, owner=2)
        self.take(list(table))

    @precondition(lambda self: self.cached)
    @rule(data=st.data())
    def hit(self, data: st.DataObject) -> None:
        block = data.draw(st.sampled_from(self.cached))
        self.pool.hold(block, owner=3)
        self.cached.remove(block)
        self.take([block])

    @precondition(lambda self: self.tables)
    @rule(data=st.data(), content=st.integers(0, 4))
    def index(self, data: st.DataObject, content: int) -> None:
        block = data.draw(st.sampled_from(data.draw(st.sampled_from(self.tables))))
        added = self.pool.index_block(PrefixKey(None, (content, content)), block)
        assert added == (block not in self.keys and content not in self.keys.values())
        if added:
            self.keys[block] = content

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        table = self.tables.pop(data.draw(st.integers(0, len(self.tables) - 1)))
        to_free, to_cached = self.pool.release(table)
        gone = []
        for block in reversed(table):
            self.refs[block] -= 1
            if not self.refs[block]:
                gone.append(block)
                (self.cached if block in self.keys else self.free).append(block)
        assert to_free + to_cached == len(gone)

    @rule(count=st.integers(0, 9))
    def evict(self, count: int) -> None:
        if count > len(self.cached):
            with pytest.raises(ValueError, match="asked to evict"):
                self.pool.evict(count)
            return
        evicted = self.pool.evict(count)
        assert evicted == self.cached[:count], "least recently used first"
        self.free += evicted
        del self.cached[:count]
        for block in evicted:
            del self.keys[block]

    @rule()
    def clear_index(self) -> None:
        freed, unindexed = self.pool.clear_index()
        assert (freed, unindexed) == (self.cached, len(self.keys) - len(self.cached))
        self.free += self.cached
        self.cached, self.keys = [], {}

    @invariant()
    def model_and_pool_agree(self) -> None:
        assert list(self.pool.free) == self.free
        assert list(reversed(self.pool.free)) == self.free[::-1]
        assert list(self.pool.cached) == self.cached
        assert {block.block_id: block.ref_count for block in self.pool.blocks} == self.refs
        assert self.pool.num_free + self.pool.num_cached + self.pool.num_active == self.pool.num_blocks
        assert self.pool.num_available == len(self.free) + len(self.cached)
        assert set(self.pool.index.blocks()) == set(self.keys)


PoolMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
TestPoolMachine = PoolMachine.TestCase


def test_releasing_a_block_that_nobody_holds_is_an_error() -> None:
    pool = BlockPool(2, 4)
    blocks = pool.allocate(1, owner=1)
    pool.release(blocks)
    with pytest.raises(ValueError, match="block 0 is released but nobody holds it"):
        pool.release(blocks)


def test_the_largest_hole_is_the_longest_run_of_free_blocks() -> None:
    pool = BlockPool(8, 4)
    one, two, three = pool.allocate(2, owner=1), pool.allocate(1, owner=2), pool.allocate(2, owner=3)
    pool.release(one)
    pool.release(three)
    assert two == [2] and pool.largest_hole() == 5 and pool.has_hole(5) and not pool.has_hole(6)
