"""The page ``/metrics``: what vLLM tells of itself, under vLLM's names, of this engine.

Values now and totals are read from the view when somebody asks; times are measured batch by batch. A sequence counts as
a request, as vLLM counts each sample as one. ``num_gpu_blocks`` is one more than the pool has, since vLLM keeps a
placeholder that nobody holds: whoever computes ``usage * (num_gpu_blocks - 1)`` gets the blocks that are held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import prometheus_client
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from kvtop.engine.events import Admitted, Advanced, Batch, EngineInfo, Finished, Forked, Queued, StepTimed
from kvtop.serve.block_ages import BlockAges
from kvtop.view.pool_view import PoolView

_LABELS = ("engine", "model_name")
_ENGINE = "0"
_TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640)
_TOKEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
_LATENCY = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
_AGE = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600)
_LENGTH = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)

_HISTOGRAMS: dict[str, tuple[str, tuple[float, ...]]] = {
    "vllm:time_to_first_token_seconds": ("from a request's arrival to its first token", _TTFT),
    "vllm:inter_token_latency_seconds": ("between two tokens of a request", _TOKEN),
    "vllm:e2e_request_latency_seconds": ("from a request's arrival to its end", _LATENCY),
    "vllm:request_queue_time_seconds": ("from a request's arrival to its first admission", _LATENCY),
    "vllm:request_prefill_time_seconds": ("from a request's first admission to its first token", _LATENCY),
    "vllm:request_decode_time_seconds": ("from a request's first token to its last", _LATENCY),
    "vllm:request_prompt_tokens": ("tokens of a request's prompt", _LENGTH),
    "vllm:request_generation_tokens": ("tokens of a request's answer", _LENGTH),
    "vllm:request_params_max_tokens": ("max_tokens of a request", _LENGTH),
    "vllm:kv_block_lifetime_seconds": ("from a block's being handed out to its eviction", _AGE),
    "vllm:kv_block_idle_before_evict_seconds": ("from a block's last use to its eviction", _AGE),
}
_GAUGES: dict[str, tuple[str, Callable[[PoolView], float]]] = {
    "vllm:kv_cache_usage_perc": (
        "share of the pool that requests hold, 1 is all",
        lambda view: view.blocks.active / max(1, view.blocks.num_blocks),
    ),
    "vllm:num_requests_running": ("requests that run", lambda view: len(view.with_status("running"))),
    "vllm:num_requests_waiting": ("requests that wait, preempted ones included", lambda view: _waiting(view)),
    "vllm:num_requests_swapped": ("requests whose KV is in the swap space", lambda v: len(v.with_status("swapped"))),
}
_COUNTERS: dict[str, tuple[str, Callable[[PoolView], float]]] = {
    "vllm:num_preemptions": ("preemptions, each in the step it happens", lambda view: view.counters.preemptions),
    "vllm:prefix_cache_queries": ("tokens looked up", lambda view: view.counters.prefix_queried_tokens),
    "vllm:prefix_cache_hits": ("tokens found", lambda view: view.counters.prefix_hit_tokens),
    "vllm:prompt_tokens": ("prompt tokens of admitted requests", lambda view: view.counters.prompt_tokens),
    "vllm:prompt_tokens_cached": ("of them found in the prefix cache", lambda view: view.counters.prefix_hit_tokens),
    "vllm:generation_tokens": ("tokens generated", lambda view: view.counters.generated_tokens),
}
_FINISHED = ("stop", "length", "abort", "error")
_FINISH_WORDS = {"pool_exhausted": "length", "rejected": "error"}


@dataclass(slots=True)
class _Times:
    """Moments of one sequence, in seconds of the engine's monotonic clock."""

    queued_s: float
    prompt_tokens: int
    admitted_s: float | None = None
    first_s: float | None = None
    last_s: float = 0.0
    generated: int = 0


class Metrics(Collector):
    """``observe`` every batch; ``page`` whenever asked. Both on the server's loop."""

    def __init__(self, model: str | None) -> None:
        """``model``: what clients call it; None: as the engine does."""
        self._model = model
        self._view: PoolView | None = None
        self._times: dict[int, _Times] = {}
        self._ages: BlockAges | None = None
        self._finished = dict.fromkeys(_FINISHED, 0)
        self._registry = CollectorRegistry(auto_describe=False)
        self._histograms: dict[str, prometheus_client.Histogram] = {}
        prometheus_client.ProcessCollector(registry=self._registry)
        self._registry.register(self)

    def page(self) -> tuple[bytes, str]:
        """The page, and its content type."""
        return prometheus_client.generate_latest(self._registry), prometheus_client.CONTENT_TYPE_PLAIN_0_0_4

    def observe(self, view: PoolView, batch: Batch) -> None:
        """Take note of what a batch tells; ``view`` has taken it in."""
        if view is not self._view:
            self._view, self._ages = view, None
            self._times.clear()
        if not self._histograms and view.info is not None:
            self._open_histograms(view.info)
        if not self._histograms:
            return
        self._note_ages(view, batch)
        now_s = batch.monotonic_s
        began_s = now_s - sum(e.schedule_s + e.run_s + e.update_s for e in batch.events if isinstance(e, StepTimed))
        for event in batch.events:
            match event:
                case Advanced():
                    self._advance(event, now_s)
                case Queued():
                    self._times[event.seq] = _Times(began_s, event.prompt_tokens)
                    for _ in range(event.n):
                        self._note("vllm:request_params_max_tokens", event.max_tokens)
                case Forked():
                    self._fork(event)
                case Admitted():
                    self._admit(event, began_s)
                case Finished():
                    self._finish(event, now_s)
        if batch.snapshot is not None:  # it may stand for batches that were lost, with ends in them
            self._times = {seq: times for seq, times in self._times.items() if seq in view.sequences}

    def collect(self) -> Iterator[Metric]:
        view = self._view
        if view is None or view.info is None:
            return
        labels = [_ENGINE, self._name(view.info)]
        for name, (text, value) in _GAUGES.items():
            gauge = GaugeMetricFamily(name, text, labels=_LABELS)
            gauge.add_metric(labels, value(view))
            yield gauge
        reasons = GaugeMetricFamily("vllm:num_requests_waiting_by_reason", "why they wait", labels=(*_LABELS, "reason"))
        reasons.add_metric([*labels, "capacity"], _waiting(view))  # vLLM's other reason, deferred, does not arise here
        yield reasons
        for name, (text, value) in _COUNTERS.items():
            counter = CounterMetricFamily(name, text, labels=_LABELS)
            counter.add_metric(labels, value(view))
            yield counter
        finished = CounterMetricFamily(
            "vllm:request_success", "requests that ended", labels=(*_LABELS, "finished_reason")
        )
        for reason, count in self._finished.items():
            finished.add_metric([*labels, reason], count)
        yield finished
        info = GaugeMetricFamily("vllm:cache_config_info", "the pool", labels=("engine", *_config(view.info)))
        info.add_metric([_ENGINE, *_config(view.info).values()], 1)
        yield info

    def _name(self, info: EngineInfo) -> str:
        return self._model or info.model

    def _open_histograms(self, info: EngineInfo) -> None:
        for name, (text, buckets) in _HISTOGRAMS.items():
            histogram = prometheus_client.Histogram(name, text, _LABELS, buckets=buckets, registry=self._registry)
            self._histograms[name] = histogram.labels(_ENGINE, self._name(info))

    def _note(self, name: str, value: float) -> None:
        self._histograms[name].observe(max(0.0, value))

    def _note_ages(self, view: PoolView, batch: Batch) -> None:
        if self._ages is None:
            self._ages = BlockAges(view.blocks.num_blocks)
        for lifetime_s, idle_s in self._ages.take(batch):
            self._note("vllm:kv_block_lifetime_seconds", lifetime_s)
            self._note("vllm:kv_block_idle_before_evict_seconds", idle_s)

    def _fork(self, event: Forked) -> None:
        if (parent := self._times.get(event.parent)) is not None:
            child = _Times(parent.queued_s, parent.prompt_tokens, parent.admitted_s if event.runs_now else None)
            self._times[event.seq] = child

    def _admit(self, event: Admitted, began_s: float) -> None:
        if (times := self._times.get(event.seq)) is not None:
            times.admitted_s = began_s
            self._note("vllm:request_queue_time_seconds", began_s - times.queued_s)

    def _advance(self, event: Advanced, now_s: float) -> None:
        for seq, token in zip(event.seqs, event.sampled, strict=True):
            times = self._times.get(seq)
            if token < 0 or times is None:
                continue
            if times.first_s is None:
                times.first_s = now_s
                self._note("vllm:time_to_first_token_seconds", now_s - times.queued_s)
            else:
                self._note("vllm:inter_token_latency_seconds", now_s - times.last_s)
            times.last_s = now_s
            times.generated += 1

    def _finish(self, event: Finished, now_s: float) -> None:
        times = self._times.pop(event.seq, None)
        if times is None or event.reason == "pruned":
            return
        reason = _FINISH_WORDS.get(event.reason, event.reason)
        self._finished[reason] = self._finished.get(reason, 0) + 1
        self._note("vllm:e2e_request_latency_seconds", now_s - times.queued_s)
        self._note("vllm:request_prompt_tokens", times.prompt_tokens)
        self._note("vllm:request_generation_tokens", times.generated)
        if times.first_s is not None:
            self._note("vllm:request_decode_time_seconds", times.last_s - times.first_s)
            if times.admitted_s is not None:
                self._note("vllm:request_prefill_time_seconds", times.first_s - times.admitted_s)


def _waiting(view: PoolView) -> int:
    return len(view.with_status("waiting")) + len(view.with_status("swapped"))


def _config(info: EngineInfo) -> dict[str, str]:
    """Settings as labels, by vLLM's names."""
    return {
        "block_size": str(info.block_size),
        "num_gpu_blocks": str(info.num_blocks + 1),
        "num_cpu_blocks": str(info.swap_blocks),
        "kv_cache_size_tokens": str(info.num_blocks * info.block_size),
        "enable_prefix_caching": str(info.prefix_cache),
        "cache_dtype": info.dtype,
    }
