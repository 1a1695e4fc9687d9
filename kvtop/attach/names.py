"""What servers call their metrics, old names and new, and what we call the same figure.

A figure has one name here and several in the world: vLLM renamed its own, and SGLang has others. The first name of a
row that a page carries is the one that counts; if it carries none, the figure is unknown, never 0. Names are those of
vLLM 0.4 to 0.32 (``vllm/engine/metrics.py``, ``vllm/v1/metrics/loggers.py``) and of SGLang 0.3 to 0.5
(``sglang/srt/observability/metrics_collector.py``).
"""

from __future__ import annotations

GAUGES: dict[str, tuple[str, ...]] = {
    "usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"),
    "running": ("vllm:num_requests_running", "sglang:num_running_reqs"),
    "waiting": ("vllm:num_requests_waiting", "sglang:num_queue_reqs"),
    "swapped": ("vllm:num_requests_swapped",),
    "hit_rate_told": ("vllm:gpu_prefix_cache_hit_rate", "sglang:cache_hit_rate"),
    "capacity_tokens": ("sglang:max_total_num_tokens",),
    "block_size": ("sglang:page_size",),
    "max_model_len": ("sglang:context_len",),
}
"""Values now. ``usage`` is a share of the pool; ``hit_rate_told`` is the server's own ratio, where it counts none."""

COUNTERS: dict[str, tuple[str, ...]] = {
    "preemptions": ("vllm:num_preemptions_total", "vllm:num_preemptions", "sglang:num_retracted_requests_total"),
    "prefix_queried": (
        "vllm:prefix_cache_queries_total",
        "vllm:gpu_prefix_cache_queries_total",
        "vllm:prefix_cache_queries",
    ),
    "prefix_hit": (
        "vllm:prefix_cache_hits_total",
        "vllm:gpu_prefix_cache_hits_total",
        "vllm:prefix_cache_hits",
    ),
    "prompt_tokens": ("vllm:prompt_tokens_total", "vllm:prompt_tokens", "sglang:prompt_tokens_total"),
    "cached_tokens": ("vllm:prompt_tokens_cached_total", "sglang:cached_tokens_total"),
    "generated_tokens": ("vllm:generation_tokens_total", "vllm:generation_tokens", "sglang:generation_tokens_total"),
    "requests": ("sglang:num_requests_total",),
}
"""Totals since the server started."""

LABELLED: dict[str, tuple[tuple[str, str], ...]] = {
    "waiting_by_reason": (("vllm:num_requests_waiting_by_reason", "reason"),),
    "finished": (("vllm:request_success_total", "finished_reason"), ("vllm:request_success", "finished_reason")),
}
"""Figures split by one label: name and label."""

HISTOGRAMS: dict[str, tuple[str, ...]] = {
    "ttft": ("vllm:time_to_first_token_seconds", "sglang:time_to_first_token_seconds"),
    "inter_token": (
        "vllm:inter_token_latency_seconds",
        "vllm:time_per_output_token_seconds",
        "sglang:inter_token_latency_seconds",
        "sglang:time_per_output_token_seconds",
    ),
    "e2e": ("vllm:e2e_request_latency_seconds", "sglang:e2e_request_latency_seconds"),
    "queue": ("vllm:request_queue_time_seconds", "vllm:time_in_queue_requests", "sglang:queue_time_seconds"),
    "prefill": ("vllm:request_prefill_time_seconds",),
    "decode": ("vllm:request_decode_time_seconds",),
    "prompt_length": ("vllm:request_prompt_tokens", "sglang:prompt_tokens_histogram"),
    "output_length": ("vllm:request_generation_tokens", "sglang:generation_tokens_histogram"),
    "max_tokens": ("vllm:request_params_max_tokens",),
    "block_lifetime": ("vllm:kv_block_lifetime_seconds",),
    "block_idle": ("vllm:kv_block_idle_before_evict_seconds",),
}
"""Times in seconds, lengths in tokens."""

INFO = ("vllm:cache_config_info", "vllm:cache_config")
"""Settings as labels of a constant 1."""

START_TIME = "process_start_time_seconds"

RANK_LABELS = ("engine", "dp_rank")
"""The label that names a data-parallel rank: vLLM's and SGLang's. A page without it has one rank, "0"."""

SHARD_LABELS = ("tp_rank", "pp_rank")
"""Ranks of one model: they tell the same pool again, so only number 0 counts."""

PREFIXES = ("vllm:", "sglang:", START_TIME)
