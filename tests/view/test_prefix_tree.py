"""The prefix tree is that of the engine's index, its figures are those of the tables."""

from __future__ import annotations

import numpy as np

from kvtop.engine.control import ClearCache, TakeSnapshot
from kvtop.view.keyframe import copy_view
from kvtop.view.pool_view import PoolView
from kvtop.view.prefix_tree import Branch, PrefixTree, prefix_tree
from tests.view.made_view import MadeView
from tests.view.watched_engine import WatchedEngine, request

COMMON = [7] * 8


def shared_prompts() -> WatchedEngine:
    """Three requests that begin with the same two blocks, and one of its own."""
    engine = WatchedEngine(num_blocks=40, block_size=4)
    engine.add(request("req-1", [*COMMON, 1, 1, 1, 1, 1], 30))
    engine.run()
    engine.add(request("req-2", [*COMMON, 2, 2, 2, 2, 2], 30))
    engine.add(request("req-3", [*COMMON, 3], 30))
    engine.add(request("own", 9, 30))
    engine.run()
    return engine


def every(tree: PrefixTree) -> list[Branch]:
    return [branch for branch, _ in tree.rows()]


def test_requests_with_one_beginning_hang_under_it_and_what_it_saves_is_counted() -> None:
    engine = shared_prompts()
    tree = prefix_tree(engine.view)
    trunk = tree.branches[0]
    assert (len(trunk.blocks), trunk.depth, trunk.ref_count, trunk.hits, trunk.saved) == (2, 0, 3, 2, 4)
    assert [engine.view.name_of(seq) for seq in trunk.seqs] == ["req-1", "req-2", "req-3"]
    names = {tuple(engine.view.name_of(seq) for seq in below.seqs): below.depth for below in trunk.branches}
    assert names == {("req-1",): 2, ("req-2",): 2}
    own = tree.branches[1]
    assert [engine.view.name_of(seq) for seq in own.seqs] == ["own"] and own.saved == 0
    tables = [s.table for s in engine.view.sequences.values()]
    assert tree.saved_blocks == sum(map(len, tables)) - len({b for t in tables for b in t}) == 4 == trunk.tree_saved


def test_every_indexed_block_is_in_the_tree_once_below_the_block_it_follows() -> None:
    engine = shared_prompts()
    for _ in range(60):
        engine.run()
        view, tree = engine.view, prefix_tree(engine.view)
        index = engine.scheduler.kv.pool.index
        told = [block for branch in every(tree) for block in branch.blocks]
        assert sorted(told) == sorted(index.blocks()) and tree.indexed_blocks == len(told)
        for branch in every(tree):
            for place, block in enumerate(branch.blocks):
                key, depth = index.key_of(block), 0
                while key is not None and key.parent is not None:
                    key, depth = key.parent, depth + 1
                assert depth == branch.depth + place
                assert int(view.blocks.ref_counts[block]) == branch.ref_count
    assert told  # the requests are over and their blocks are cached
    assert all(branch.ref_count == 0 and not branch.seqs for branch in every(tree)) and tree.saved_blocks == 0


def test_a_cleared_cache_leaves_no_tree() -> None:
    engine = shared_prompts()
    engine.send(ClearCache())
    tree = prefix_tree(engine.view)
    assert (tree.branches, tree.indexed_blocks) == ([], 0) and tree.saved_blocks == 4
    assert not engine.view.blocks.parents.any() and not engine.view.blocks.hits.any()


def test_a_late_reader_sees_the_same_tree_with_the_hits_it_has_seen() -> None:
    engine = shared_prompts()
    assert every(prefix_tree(copy_view(engine.view)))[0].hits == 2
    engine.send(TakeSnapshot())
    late = PoolView()
    late.apply(engine.batches[-1])
    shape = [(b.blocks, b.depth, b.ref_count, b.seqs) for b in every(prefix_tree(late))]
    assert shape == [(b.blocks, b.depth, b.ref_count, b.seqs) for b in every(prefix_tree(engine.view))]
    assert every(prefix_tree(late))[0].hits == 0


def test_what_follows_an_unknown_block_is_shown_as_cut() -> None:
    made = MadeView()
    made.cache(4)
    made.view.blocks.evict([(1, 1)], 1)
    tree = prefix_tree(made.view)
    assert [(branch.blocks, branch.is_cut) for branch in tree.branches] == [([2, 3], True), ([0], False)]


def test_the_lines_that_lead_to_a_branch_follow_its_parents() -> None:
    rows = prefix_tree(shared_prompts().view).rows()
    assert [lead for _, lead in rows] == ["", "├─ ", "└─ ", ""]


def test_a_hundred_thousand_blocks_fall_into_the_chains_they_hold() -> None:
    made = MadeView(num_blocks=100_000)
    blocks = made.view.blocks
    hashes = np.arange(1, 100_001, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    blocks.hashes[:] = hashes
    blocks.parents[1:] = hashes[:-1]
    blocks.parents[::100] = 0  # a thousand prompts of a hundred blocks
    tree = prefix_tree(made.view)
    assert len(tree.branches) == 1_000 and tree.indexed_blocks == 100_000
