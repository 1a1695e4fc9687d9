"""What the block tables say is what attention reads, and what is computed is what was scheduled."""

from __future__ import annotations

import pytest

from kvtop.engine.blocks import BlockPool
from tests.engine.fake_runner import FakeRunner
from tests.engine.harness import Harness, ask, assert_equal_to_oracle


def test_moving_blocks_to_other_places_in_mid_run_changes_no_token() -> None:
    harness = Harness(num_blocks=12, block_size=4, prefix_cache=False)
    requests = [ask("A", 6, 10), ask("B", 5, 10, n=2, temperature=1.0, seed=2)]
    harness.add(*requests)
    for _ in range(4):
        harness.step()
    _move_all_blocks(harness)
    harness.drain()
    assert_equal_to_oracle(harness, *requests)


def _move_all_blocks(harness: Harness) -> None:
    """Permute physical blocks: in the runner's memory, in the tables, and in the pool's queues."""
    scheduler, runner = harness.scheduler, harness.runner
    old = scheduler.kv.pool
    size = old.num_blocks
    place = [(5 * block + 3) % size for block in range(size)]
    runner.pool = [runner.pool[place.index(block)] for block in range(size)]
    new = BlockPool(size, old.block_size)
    for sequence in scheduler.roster.running:
        sequence.table.block_ids = [place[block] for block in sequence.table.block_ids]
    held = {block for sequence in scheduler.roster.running for block in sequence.table.block_ids}
    for block_id in held:
        block = new.blocks[block_id]
        new.free.remove(block)
        new._hand_out(block, 0)
        block.ref_count = sum(block_id in sequence.table.block_ids for sequence in scheduler.roster.running)
    scheduler.kv.pool = new


def test_a_corrupted_block_changes_the_outputs_of_its_owners_only() -> None:
    harness = Harness(num_blocks=12, block_size=4, prefix_cache=False)
    victim, bystander = ask("A", 6, 10), ask("B", 5, 10)
    harness.add(victim, bystander)
    for _ in range(4):
        harness.step()
    owned = harness.scheduler.roster.running[0].table.block_ids[0]
    harness.runner.pool[owned][1] = (999, 1)
    harness.drain()
    assert_equal_to_oracle(harness, bystander)
    with pytest.raises(AssertionError):
        assert_equal_to_oracle(harness, victim)


def test_the_engine_refuses_a_runner_that_computes_other_tokens_than_scheduled() -> None:
    harness = Harness(num_blocks=8, block_size=4)
    honest = FakeRunner.run

    def lazy(plan):
        result = honest(harness.runner, plan)
        result.computed_tokens -= 1
        return result

    harness.runner.run = lazy  # type: ignore[method-assign]
    harness.add(ask("A", 6))
    with pytest.raises(RuntimeError, match="computed 5 tokens, 6 were scheduled"):
        harness.step()
