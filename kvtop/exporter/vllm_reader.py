"""vLLM's scheduler as the exporter reads it: every private name of vLLM's that we depend on stands in this file.

Known to fit vLLM 0.32: ``Scheduler.running`` and ``.requests``, ``kv_cache_manager.block_pool`` with its blocks and its
queue of free ones, and the tables of the one KV cache group of a model with full attention. Only reads, but for
``scheduling_nothing``. Imports nothing of vLLM. vLLM's block 0 is a placeholder that no request holds: our block n is
its block n + 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from typing import Any

from kvtop.engine.events import EngineInfo, FinishReason
from kvtop.exporter.reader import RequestEnd, RequestFacts, RunningRow

SUPPORTED = ("0.32.",)
"""Beginnings of the versions whose private names are known to be these."""

_REASONS: dict[str, FinishReason] = {
    "FINISHED_STOPPED": "stop",
    "FINISHED_LENGTH_CAPPED": "length",
    "FINISHED_ABORTED": "abort",
    "FINISHED_IGNORED": "length",
    "FINISHED_ERROR": "error",
    "FINISHED_REPETITION": "stop",
}


class NotExportable(ValueError):
    """This server's tables cannot be told; the message says why."""


def check_version(version: str) -> None:
    """Raise NotExportable unless the private names of this version of vLLM are known."""
    if not version.startswith(SUPPORTED):
        known = ", ".join(f"{beginning}x" for beginning in SUPPORTED)
        raise NotExportable(f"it knows the inside of vLLM {known}, and this is {version}")


class VllmReader:
    """A PoolReader over one ``vllm.v1.core.sched.scheduler.Scheduler``.

    Raises:
        NotExportable: the model's layers keep their KV in several groups or drop a part of it (a sliding window), or
            blocks leave for elsewhere (a KV connector): a table is then no list of blocks that only grows.
    """

    def __init__(self, scheduler: Any) -> None:
        manager = scheduler.kv_cache_manager
        groups = manager.coordinator.single_type_managers
        kinds = [type(group).__name__ for group in groups]
        if kinds != ["FullAttentionManager"]:
            raise NotExportable(f"it tells tables of full attention only, and this model's are {', '.join(kinds)}")
        if scheduler.connector is not None:
            raise NotExportable(f"blocks leave this server by {type(scheduler.connector).__name__}")
        self._scheduler = scheduler
        self._requests: dict[str, Any] = scheduler.requests
        self._pool = manager.block_pool
        self._blocks = self._pool.blocks
        self._queue = self._pool.free_block_queue
        self._tables: dict[str, list[Any]] = groups[0].req_to_blocks
        self._seen: dict[str, Any] = {}
        """Requests asked about, until they are forgotten: a scheduler drops them when they end."""

    @property
    def num_idle(self) -> int:
        return int(self._queue.num_free_blocks)

    @property
    def index(self) -> object:
        return self._pool.cached_block_hash_to_block

    @property
    def num_alive(self) -> int:
        return len(self._requests)

    def newest_first(self) -> Iterator[str]:
        return reversed(self._requests)

    def is_alive(self, request_id: str) -> bool:
        return request_id in self._requests

    def running(self) -> list[RunningRow]:
        return self._rows(self._scheduler.running)

    def grown(self, known: Mapping[str, Sized]) -> list[RunningRow]:
        tables, nothing = self._tables, ()
        return self._rows(
            request
            for request in self._scheduler.running
            if len(tables.get(request.request_id, nothing)) != len(known.get(request.request_id, nothing))
        )

    def _rows(self, requests: Iterable[Any]) -> list[RunningRow]:
        tables = self._tables
        return [
            (
                request.request_id,
                len(request._all_token_ids),
                request.num_computed_tokens - request.num_in_flight_tokens,
                request.num_preemptions,
                len(tables.get(request.request_id, ())),
                request._all_token_ids[-1],
            )
            for request in requests
        ]

    def facts(self, request_id: str) -> RequestFacts:
        request = self._seen[request_id] = self._requests[request_id]
        return RequestFacts(request.num_prompt_tokens, request.max_tokens or 0, request.priority)

    def end(self, request_id: str) -> RequestEnd:
        request = self._seen[request_id]
        reason = _REASONS.get(request.status.name, "abort")
        computed = request.num_computed_tokens - request.num_in_flight_tokens
        return RequestEnd(request_id, reason, len(request._all_token_ids), computed, request.stop_reason)

    def forget(self, request_id: str) -> None:
        self._seen.pop(request_id, None)

    def tokens(self, request_id: str) -> int:
        return len(self._requests[request_id]._all_token_ids)

    def new_tokens(self, request_id: str, count: int) -> Iterable[int]:
        return self._seen[request_id]._all_token_ids[-count:] if count else ()

    def table(self, request_id: str, start: int) -> list[int]:
        return [block.block_id - 1 for block in self._tables.get(request_id, ())[start:]]

    def ref_counts(self) -> Iterable[int]:
        return [block.ref_cnt for block in self._blocks[1:]]

    def block_hashes(self) -> Iterable[int]:
        return [_short(block.block_hash) for block in self._blocks[1:]]

    def block_hash(self, block: int) -> int:
        return _short(self._blocks[block + 1].block_hash)

    def queue(self) -> Iterator[int]:
        block = self._queue.fake_free_list_head.next_free_block
        while block is not None and block.block_id > 0:
            yield block.block_id - 1
            block = block.next_free_block

    def queue_backwards(self) -> Iterator[int]:
        block = self._queue.fake_free_list_tail.prev_free_block
        while block is not None and block.block_id > 0:
            yield block.block_id - 1
            block = block.prev_free_block


def _short(block_hash: bytes | None) -> int:
    """A block's hash in 64 bits, the same that vLLM's KV events carry; the last 4 of its bytes name the group."""
    return int.from_bytes(block_hash[-12:-4], "big") if block_hash else 0


@contextmanager
def scheduling_nothing(scheduler: Any) -> Iterator[None]:
    """Within it the scheduler schedules no request, as vLLM itself has it where an engine is paused for new weights.

    Raises:
        AttributeError: it has no such state.
    """
    before = scheduler._pause_state
    scheduler._pause_state = type(before).PAUSED_ALL
    try:
        yield
    finally:
        scheduler._pause_state = before


def scheduled_tokens(output: Any) -> int:
    """Tokens that a scheduler's output is to compute; 0: it is no step."""
    return int(getattr(output, "total_num_scheduled_tokens", 1))


def _name_of(model_config: Any) -> str:
    """What its API calls the model; a server that was given no name calls it by its path."""
    name = model_config.served_model_name
    return str(name if isinstance(name, str) else name[0])


def info_of(scheduler: Any, version: str) -> EngineInfo:
    """What does not change while the server runs."""
    config = scheduler.vllm_config
    cache = scheduler.kv_cache_config
    blocks = len(scheduler.kv_cache_manager.block_pool.blocks)
    block_size = scheduler.kv_cache_manager.coordinator.single_type_managers[0].block_size
    kv_bytes = sum(tensor.size for tensor in cache.kv_cache_tensors)
    return EngineInfo(
        model=_name_of(config.model_config),
        device=str(config.device_config.device_type),
        dtype=str(config.model_config.dtype).removeprefix("torch."),
        kernel=f"vLLM {version}",
        block_size=block_size,
        num_blocks=blocks - 1,
        swap_blocks=0,
        kv_bytes_per_token=kv_bytes // (blocks * block_size),
        max_model_len=int(config.model_config.max_model_len),
        max_num_seqs=int(config.scheduler_config.max_num_seqs),
        max_num_batched_tokens=int(config.scheduler_config.max_num_batched_tokens),
        policy="paged",
        preempt="recompute",
        victim="lowest-priority" if config.scheduler_config.policy == "priority" else "newest",
        watermark=0.0,
        prefix_cache=bool(scheduler.kv_cache_manager.block_pool.enable_caching),
        first_block=1,
    )
