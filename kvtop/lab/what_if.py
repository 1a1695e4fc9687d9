"""What if: known traffic through the whole engine under other settings, on the simulated runner.

Unlike a trial this is the live engine itself, with chunked prefill, prefix cache, samples, beams and swap; only tokens
and seconds are made up. The pool keeps its size in tokens when the block size changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kvtop.engine.config import SchedulerConfig
from kvtop.engine.control import Inject
from kvtop.engine.cost import LLAMA_3_8B_KV_BYTES_PER_TOKEN, CostModel
from kvtop.engine.engine import Engine
from kvtop.engine.events import EngineInfo
from kvtop.engine.requests import Request
from kvtop.engine.simulator import EOS, SimulatedRunner, WordCodec, typical_length
from kvtop.failure import Failure
from kvtop.lab.experiment import POOL_TOKENS
from kvtop.lab.meter import Meter
from kvtop.lab.traffic import Traffic
from kvtop.settings import EngineSettings
from kvtop.view.pool_view import PoolView

_START = EngineSettings()
WORKLOAD_INFO = EngineInfo(
    model="simulated Llama-3-8B",
    device="none",
    dtype="bfloat16",
    kernel="cost model",
    block_size=_START.block_size,
    num_blocks=POOL_TOKENS // _START.block_size,
    swap_blocks=0,
    kv_bytes_per_token=LLAMA_3_8B_KV_BYTES_PER_TOKEN,
    max_model_len=8_192,
    max_num_seqs=_START.max_num_seqs,
    max_num_batched_tokens=_START.max_num_batched_tokens,
    policy=_START.policy,
    preempt=_START.preempt,
    victim=_START.victim,
    watermark=_START.watermark,
    prefix_cache=_START.prefix_cache,
    simulated=True,
)
"""What a workload file runs on: the live engine's defaults over the lab's pool."""


class VirtualClock:
    """Time that passes only when it is spent."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def spend(self, seconds: float) -> None:
        self.now_s += seconds


def changed(info: EngineInfo, changes: Mapping[str, Any]) -> EngineInfo:
    """``info`` under other settings. ``pool_tokens`` is the pool's size; without it the size stays.

    Raises:
        ValueError: a value is outside its range, or the pool holds no block.
    """
    rest = dict(changes)
    pool_tokens = rest.pop("pool_tokens", info.num_blocks * info.block_size)
    swap_tokens = info.swap_blocks * info.block_size
    size = rest.get("block_size", info.block_size)
    new = msgspec.structs.replace(
        info, **rest, num_blocks=pool_tokens // size, swap_blocks=swap_tokens // size, simulated=True
    )
    _config(new)
    return new


def _config(info: EngineInfo) -> SchedulerConfig:
    return SchedulerConfig(
        num_blocks=info.num_blocks,
        block_size=info.block_size,
        swap_blocks=info.swap_blocks,
        max_num_seqs=info.max_num_seqs,
        max_num_batched_tokens=info.max_num_batched_tokens,
        max_model_len=info.max_model_len,
        policy=info.policy,
        preempt=info.preempt,
        victim=info.victim,
        watermark=info.watermark,
        prefix_cache=info.prefix_cache,
    )


def answer_tokens(traffic: Traffic, request: Request, index: int) -> int:
    """How many tokens a request's ``index``-th answer will have, its end token included."""
    known = traffic.answers.get((request.id, index))
    if known is not None:
        return min(known, request.max_tokens)
    return request.max_tokens if request.ignore_eos else min(request.max_tokens, typical_length(request, index) + 1)


def simulated_engine(info: EngineInfo, traffic: Traffic, cost: CostModel, clock: VirtualClock) -> Engine:
    """A live engine on the simulated runner, whose answers are as long as the traffic's, with the traffic taken in.

    Raises:
        Failure: the requests cannot be taken in.
    """

    def end_token_after(request: Request, index: int) -> int:
        known = traffic.answers.get((request.id, index))
        return typical_length(request, index) if known is None else max(0, known - 1)

    runner = SimulatedRunner(cost, clock.spend, end_token_after)
    engine = Engine(info, _config(info), runner, WordCodec(), frozenset({EOS}), monotonic=clock, wall=clock)
    refusal = engine.apply(Inject(requests=traffic.requests)).error
    if refusal:
        raise Failure(refusal)
    return engine


def simulate(
    traffic: Traffic, info: EngineInfo, cost: CostModel, report: Callable[[int], None] = lambda ended: None
) -> dict[str, Any]:
    """Run the traffic to its end; the meter's figures. ``report`` is told how many requests have ended.

    Raises:
        Failure: the requests cannot be taken in.
    """
    clock, meter = VirtualClock(), Meter(PoolView())
    engine = simulated_engine(info, traffic, cost, clock)
    while engine.has_work:
        batch = engine.step()
        if batch is None:
            clock.spend(engine.seconds_to_next_arrival() or 0.0)
            continue
        meter.take(batch)
        report(meter.completed + meter.rejected)
    return meter.figures()
