"""Random traffic on a real engine: after every step the view equals the engine, however it came to know."""

from __future__ import annotations

import random
from dataclasses import dataclass

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtop.engine.control import Abort, AnyCommand, ClearCache, Pause, Preempt, Resume, Set, SetPriority, TakeSnapshot
from kvtop.engine.events import Batch, from_runs
from kvtop.engine.requests import Request
from kvtop.engine.scheduler import Scheduler
from kvtop.engine.snapshots import take_snapshot
from kvtop.view.keyframe import copy_view
from kvtop.view.pool_view import PoolView
from tests.engine.harness import Harness


def assert_equals_engine(view: PoolView, harness: Harness) -> None:
    scheduler: Scheduler = harness.scheduler
    state = take_snapshot(scheduler, harness.engine.info, harness.engine.paused, harness.engine._reader.text)
    assert view.incomplete_since is None
    assert view.blocks.ref_counts.tolist() == np.frombuffer(state.ref_counts, "<u4").tolist()
    assert view.blocks.hashes.tolist() == np.frombuffer(state.hashes, "<u8").tolist()
    assert view.blocks.parents.tolist() == np.frombuffer(state.parents, "<u8").tolist()
    assert view.blocks.owners.tolist() == np.frombuffer(state.owners, "<i8").tolist()
    assert view.blocks.fills.tolist() == np.frombuffer(state.fills, "<u2").tolist()
    assert view.blocks.free_order().tolist() == np.frombuffer(state.free, "<i4").tolist()
    assert view.blocks.cached_order().tolist() == np.frombuffer(state.cached, "<i4").tolist()
    assert view.swap.free_order().tolist() == np.frombuffer(state.swap_free, "<i4").tolist()
    pool = scheduler.kv.pool
    assert (view.blocks.active, view.blocks.cached, view.blocks.free) == (
        pool.num_active,
        pool.num_cached,
        pool.num_free,
    )
    shown_totals, totals = msgspec.structs.asdict(view.counters), msgspec.structs.asdict(state.counters)
    assert {n: (v, totals[n]) for n, v in shown_totals.items() if v != totals[n]} == {}
    assert view.settings == state.settings
    assert view.paused == state.paused
    assert view.sequences.keys() == {sequence.seq for sequence in state.sequences}
    for told in state.sequences:
        shown = view.sequences[told.seq]
        for name in (
            *("request_id", "index", "n", "beam_width", "priority", "status", "prompt_tokens", "max_tokens", "tokens"),
            *("computed", "high_water", "cached_tokens", "preemptions", "recomputed_tokens", "queued_step", "arrival"),
            "wait",
        ):
            assert getattr(shown, name) == getattr(told, name), f"{name} of {shown.name}"
        assert shown.table == from_runs(told.runs)
        assert shown.swap_table == from_runs(told.swap_runs)
        assert shown.raw_text == told.text
    roster = scheduler.roster
    for shown_queue, queue in (
        (view.with_status("waiting"), roster.waiting),
        (view.with_status("swapped"), roster.swapped),
    ):
        shown_queue.sort(key=lambda sequence: sequence.queue_order)
        assert [sequence.seq for sequence in shown_queue] == [sequence.seq for sequence in queue]
    running = {sequence.seq: sequence.admitted_order for sequence in roster.running}
    assert ranks({s.seq: s.admitted_order for s in view.with_status("running")}) == ranks(running)
    assert_holders_hold(view)


def ranks(orders: dict[int, int]) -> dict[int, int]:
    """Who came how late: equal for equals, whatever the numbers."""
    distinct = sorted(set(orders.values()))
    return {seq: distinct.index(order) for seq, order in orders.items()}


def assert_holders_hold(view: PoolView) -> None:
    """A block that is held is drawn as its owner, if that holds it, else as the holder with the smallest number."""
    for block in np.flatnonzero(view.blocks.ref_counts).tolist():
        holders = {sequence.seq for sequence, _ in view.holders_of(block)}
        owner = int(view.blocks.owners[block])
        assert view.blocks.holders[block] == (owner if owner in holders else min(holders))
    idle = view.blocks.ref_counts == 0
    assert (view.blocks.holders[idle] == view.blocks.owners[idle]).all()


@dataclass
class Traffic:
    """Random requests and commands; the same seed gives the same."""

    seed: int
    block_size: int
    num_blocks: int
    policy: str
    preempt: str

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        paged = self.policy == "paged"
        self.harness = Harness(
            num_blocks=self.num_blocks,
            block_size=self.block_size,
            swap_blocks=self.num_blocks // 2,
            max_num_seqs=self.random.choice((2, 5, 16)),
            max_num_batched_tokens=self.random.choice((3, 16, 64)),
            max_model_len=24,
            policy=self.policy,
            preempt=self.preempt,
            victim=self.random.choice(("newest", "lowest-priority", "most-blocks")),
            watermark=self.random.choice((0.0, 0.1)),
            prefix_cache=paged and self.random.random() < 0.8,
            max_preemptions=5,
        )
        self.added = 0

    def next_batches(self) -> list[Batch]:
        """Perhaps a command, then a step; the batches that came of it."""
        before = len(self.harness.batches)
        if self.random.random() < 0.5:
            self.harness.send(self._command())
        self.harness.step()
        return self.harness.batches[before:]

    def _command(self) -> AnyCommand:
        choose = self.random
        running = [sequence.seq for sequence in self.harness.scheduler.roster.running] or [1]
        names = list(self.harness.scheduler.roster.groups) or ["nobody"]
        pick = choose.random()
        if pick < 0.6:
            self.harness.add(self._request())
            return Resume()
        if pick < 0.7:
            return Preempt(seq=choose.choice(running), mode=choose.choice(("recompute", "swap")))
        if pick < 0.8:
            return Abort(request_id=choose.choice(names))
        if pick < 0.85:
            return ClearCache()
        if pick < 0.9:
            return SetPriority(request_id=choose.choice(names), priority=choose.randrange(3))
        if pick < 0.95:
            return Set(name="max_num_batched_tokens", value=str(choose.randrange(1, 40)))
        return choose.choice((Pause(), TakeSnapshot()))

    def _request(self) -> Request:
        choose = self.random
        self.added += 1
        start = [[7] * 20, [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4]][choose.randrange(2)]
        prompt = start[: choose.randrange(1, 12)] + [choose.randrange(50) for _ in range(choose.randrange(3))]
        many = choose.random()
        beams = choose.choice((2, 3)) if many < 0.15 and self.policy == "paged" else 0
        return Request(
            id=f"req-{self.added}",
            prompt_token_ids=prompt,
            max_tokens=choose.randrange(1, 12),
            priority=choose.randrange(3),
            n=choose.choice((2, 3)) if not beams and many > 0.7 else 1,
            beam_width=beams if beams <= self.harness.scheduler.config.max_num_seqs else 0,
            temperature=0.0 if beams else 1.0,
            seed=self.added,
        )


@given(
    seed=st.integers(0, 1 << 30),
    block_size=st.sampled_from((1, 2, 4)),
    num_blocks=st.integers(2, 24),
    policy=st.sampled_from(("paged", "paged", "paged", "reserve-prompt-max-tokens", "reserve-max-model-len")),
    preempt=st.sampled_from(("recompute", "swap")),
    late=st.integers(0, 25),
)
@settings(max_examples=60, deadline=None)
def test_after_every_step_all_views_equal_the_engine(
    seed: int, block_size: int, num_blocks: int, policy: str, preempt: str, late: int
) -> None:
    traffic = Traffic(seed, block_size, num_blocks, policy, preempt)
    whole, joined, gappy = PoolView(), PoolView(), PoolView()
    for step in range(40):
        batches = traffic.next_batches()
        for batch in batches:
            whole.apply(batch)
            joined.apply(batch if step > late else msgspec.structs.replace(batch, snapshot=None))
            if step != late:
                gappy.apply(batch)
        if batches and step >= late:
            with_snapshot = snapshot_of(traffic.harness, batches[-1])
            if joined.info is None:
                joined.apply(with_snapshot)
            if gappy.incomplete_since is not None:
                gappy.apply(with_snapshot)
        if step % 7 == 0:
            joined = copy_view(joined)
        for view in (whole, joined, gappy):
            if view.number == whole.number and view.incomplete_since is None:
                assert_equals_engine(view, traffic.harness)
    traffic.harness.send(TakeSnapshot())
    for view in (whole, joined, gappy):
        view.apply(traffic.harness.batches[-1])
        assert_equals_engine(view, traffic.harness)


def snapshot_of(harness: Harness, batch: Batch) -> Batch:
    """The batch, which must be the last one so far, with the state after it."""
    engine = harness.engine
    snapshot = take_snapshot(harness.scheduler, engine.info, engine.paused, engine._reader.text)
    return msgspec.structs.replace(batch, snapshot=snapshot)
