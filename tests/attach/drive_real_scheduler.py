"""A real vLLM scheduler and block pool, without a model, under random traffic, watched by the exporter.

Run by a Python that has vLLM, from the top of the repository:

    VENV/bin/python -m tests.attach.drive_real_scheduler MODEL_FOLDER [ROUNDS]

After every call the view that the exporter's batches give must be the scheduler's own state, block for block. Both
schedulers are driven, first come first served and by priority: the plain one, and the asynchronous one, which
schedules a step before it knows the last one's tokens. Says ``ok`` and what happened, or fails.
"""

from __future__ import annotations

import random
import sys
from collections import deque
from itertools import product
from typing import Any

import msgspec
import torch
from vllm.config import CacheConfig, DeviceConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager
from vllm.version import __version__

from kvtop.engine.events import Batch
from kvtop.exporter import plugin
from kvtop.exporter.vllm_reader import check_version
from kvtop.view.pool_view import PoolView

BLOCK_SIZE = 16
NUM_BLOCKS = 30
STEPS = 150


def make_scheduler(kind: type[Any], model: str, priority: bool) -> Any:
    """A scheduler of one full-attention group, as vLLM's engine core would make it."""
    config = VllmConfig(
        model_config=ModelConfig(model=model, dtype="float32", max_model_len=256, seed=0),
        cache_config=CacheConfig(block_size=BLOCK_SIZE, enable_prefix_caching=True),
        scheduler_config=SchedulerConfig(
            max_num_seqs=6,
            max_num_batched_tokens=96,
            max_model_len=256,
            is_encoder_decoder=False,
            policy="priority" if priority else "fcfs",
            async_scheduling=kind is AsyncScheduler,
        ),
        device_config=DeviceConfig("cpu"),
    )
    spec = FullAttentionSpec(block_size=BLOCK_SIZE, num_kv_heads=1, head_size=8, dtype=torch.float32)
    pool = KVCacheConfig(NUM_BLOCKS, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)])
    config.cache_config.num_gpu_blocks = NUM_BLOCKS
    return kind(
        vllm_config=config,
        kv_cache_config=pool,
        structured_output_manager=StructuredOutputManager(config),
        block_size=BLOCK_SIZE,
        log_stats=True,
    )


class Driven:
    """One scheduler, its exporter, and the view of what that tells."""

    def __init__(self, kind: type[Any], model: str, priority: bool, seed: int) -> None:
        watched = type(kind.__name__, (kind,), {})
        plugin.wrap(watched, "tcp://127.0.0.1:0", __version__)
        self.scheduler = make_scheduler(watched, model, priority)
        self.exporter = plugin._exporter_of(self.scheduler, "tcp://127.0.0.1:0", __version__)
        assert self.exporter is not None
        self.exporter.outlet.close()
        self.batches: list[Batch] = []
        self.exporter.outlet.put = self.batches.append
        self.chance = random.Random(seed)
        self.view = PoolView()
        self.under_way: deque[Any] = deque()
        self.runs_ahead = 1 if kind is AsyncScheduler else 0
        self.hasher = get_request_block_hasher(BLOCK_SIZE, sha256)
        self.added = 0

    def add(self) -> None:
        chance = self.chance
        start = [[1] * 120, [2] * 40 + [3] * 80][chance.randrange(2)]
        params = SamplingParams(max_tokens=chance.randrange(1, 70), ignore_eos=True)
        params.update_from_generation_config({}, 0)
        self.added += 1
        self.scheduler.add_request(
            Request(
                request_id=f"req-{self.added}",
                prompt_token_ids=start[: chance.randrange(1, 120)],
                sampling_params=params,
                pooling_params=None,
                priority=chance.randrange(3),
                block_hasher=self.hasher,
            )
        )

    def step(self) -> None:
        pick = self.chance.random()
        if pick < 0.4:
            self.add()
        elif pick < 0.45 and self.scheduler.requests:
            name = self.chance.choice(list(self.scheduler.requests))
            self.scheduler.finish_requests(name, RequestStatus.FINISHED_ABORTED)
        elif pick < 0.5:
            self.scheduler.reset_prefix_cache()
        self.under_way.append(self.scheduler.schedule())
        self._compare(settled=False)
        if len(self.under_way) > self.runs_ahead:
            output = self.under_way.popleft()
            self.scheduler.update_from_output(output, self._ran(output))
            self._compare(settled=True)

    def _ran(self, output: Any) -> Any:
        """A model that computed what was asked and says any token to whom the prompt is behind."""
        names = list(output.num_scheduled_tokens)
        tokens = []
        for name in names:
            request = self.scheduler.requests.get(name)
            ends_prompt = request is not None and not request.is_prefill_chunk
            tokens.append([self.chance.randrange(3)] if ends_prompt else [])
        return ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: index for index, name in enumerate(names)},
            sampled_token_ids=tokens,
            prompt_logprobs_dict={},
            pooler_output=[],
        )

    def _compare(self, settled: bool) -> None:
        if self.view.info is None:
            whole = self.exporter._whole()
            assert whole is not None
            self.view.apply(whole)
        for batch in self.batches:
            self.view.apply(msgspec.msgpack.decode(msgspec.msgpack.encode(batch), type=Batch))
        self.batches.clear()
        assert self.exporter.faults == 0 and self.exporter._void_until is None, self.exporter._void_why
        pool, view = self.scheduler.kv_cache_manager.block_pool, self.view
        block, order = pool.free_block_queue.fake_free_list_head.next_free_block, []
        while block is not pool.free_block_queue.fake_free_list_tail:
            order.append(block.block_id)
            block = block.next_free_block
        assert view.incomplete_since is None
        assert view.blocks.ref_counts.tolist() == [b.ref_cnt for b in pool.blocks[1:]]
        assert (view.blocks.idle_order() + 1).tolist() == order
        shown = {s.request_id: [b + 1 for b in s.table] for s in view.sequences.values()}
        held = {n: self.scheduler.kv_cache_manager.get_block_ids(n)[0] for n in self.scheduler.requests}
        assert shown == held
        for sequence in view.sequences.values():
            request = self.scheduler.requests[sequence.request_id]
            assert (sequence.status == "running") == (request.status is RequestStatus.RUNNING)
            assert sequence.preemptions == request.num_preemptions
            if settled:
                assert sequence.tokens == request.num_tokens
        if settled:
            assert (view.blocks.hashes != 0).tolist() == [b.block_hash is not None for b in pool.blocks[1:]]


def main() -> int:
    model, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 6
    check_version(__version__)
    init_none_hash(sha256)
    preemptions = 0
    for seed, kind, priority in product(range(rounds), (Scheduler, AsyncScheduler), (False, True)):
        driven = Driven(kind, model, priority, seed)
        for _ in range(STEPS):
            driven.step()
        preemptions += driven.view.counters.preemptions
    assert preemptions, "the pool was never under pressure"
    print(f"ok: {4 * rounds} schedulers, {STEPS} steps each, {preemptions} preemptions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
