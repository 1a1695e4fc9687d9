"""Stand-ins shaped like vLLM 0.32's scheduler, pool and queue: what ``vllm_reader`` reads, under vLLM's own names.

Not vLLM: a small imitation of its rules (one queue for free and cached blocks, freed blocks without a hash go in front,
those with one to the end, prefix hits by chained hash, the newest is preempted), so that the exporter can be driven
through every situation without a server. Whether the names fit a real vLLM is shown elsewhere, on a real one.
"""

from __future__ import annotations

import enum
import hashlib
from types import SimpleNamespace
from typing import Any


class RequestStatus(enum.IntEnum):
    WAITING = 1
    RUNNING = 5
    PREEMPTED = 6
    FINISHED_STOPPED = 7
    FINISHED_LENGTH_CAPPED = 8
    FINISHED_ABORTED = 9


class PauseState(enum.IntEnum):
    UNPAUSED = 0
    PAUSED_NEW = 1
    PAUSED_ALL = 2


class SchedulerOutput(dict[str, int]):
    """Request id → tokens to compute."""

    @property
    def total_num_scheduled_tokens(self) -> int:
        return sum(self.values())


class KVCacheBlock:
    def __init__(self, block_id: int) -> None:
        self.block_id = block_id
        self.ref_cnt = 0
        self.block_hash: bytes | None = None
        self.prev_free_block: KVCacheBlock | None = None
        self.next_free_block: KVCacheBlock | None = None


class FreeKVCacheBlockQueue:
    """A doubly linked list between two fakes whose block_id is -1."""

    def __init__(self, blocks: list[KVCacheBlock]) -> None:
        self.num_free_blocks = 0
        self.fake_free_list_head, self.fake_free_list_tail = KVCacheBlock(-1), KVCacheBlock(-1)
        self.fake_free_list_head.next_free_block = self.fake_free_list_tail
        self.fake_free_list_tail.prev_free_block = self.fake_free_list_head
        for block in blocks:
            self.append(block)

    def _between(self, before: KVCacheBlock, block: KVCacheBlock, after: KVCacheBlock) -> None:
        before.next_free_block = after.prev_free_block = block
        block.prev_free_block, block.next_free_block = before, after
        self.num_free_blocks += 1

    def append(self, block: KVCacheBlock) -> None:
        last = self.fake_free_list_tail.prev_free_block
        assert last is not None
        self._between(last, block, self.fake_free_list_tail)

    def prepend(self, block: KVCacheBlock) -> None:
        first = self.fake_free_list_head.next_free_block
        assert first is not None
        self._between(self.fake_free_list_head, block, first)

    def remove(self, block: KVCacheBlock) -> None:
        before, after = block.prev_free_block, block.next_free_block
        assert before is not None and after is not None
        before.next_free_block, after.prev_free_block = after, before
        block.prev_free_block = block.next_free_block = None
        self.num_free_blocks -= 1

    def order(self) -> list[int]:
        block, ids = self.fake_free_list_head.next_free_block, []
        while block is not None and block.block_id >= 0:
            ids.append(block.block_id)
            block = block.next_free_block
        return ids


class BlockPool:
    enable_caching = True

    def __init__(self, count: int) -> None:
        self.blocks = [KVCacheBlock(i) for i in range(count)]
        self.free_block_queue = FreeKVCacheBlockQueue(self.blocks[1:])
        self.cached_block_hash_to_block: dict[bytes, list[KVCacheBlock]] = {}

    def touch(self, block: KVCacheBlock) -> None:
        if block.ref_cnt == 0:
            self.free_block_queue.remove(block)
        block.ref_cnt += 1

    def get_new_block(self) -> KVCacheBlock:
        block = self.free_block_queue.fake_free_list_head.next_free_block
        assert block is not None
        self.free_block_queue.remove(block)
        self.unindex(block)
        block.ref_cnt = 1
        return block

    def unindex(self, block: KVCacheBlock) -> None:
        if block.block_hash is not None:
            copies = self.cached_block_hash_to_block[block.block_hash]
            copies.remove(block)
            if not copies:
                del self.cached_block_hash_to_block[block.block_hash]
            block.block_hash = None

    def free_blocks(self, table: list[KVCacheBlock]) -> None:
        front: list[KVCacheBlock] = []
        back: list[KVCacheBlock] = []
        for block in reversed(table):
            block.ref_cnt -= 1
            if block.ref_cnt == 0:
                (back if block.block_hash else front).append(block)
        for block in reversed(front):
            self.free_block_queue.prepend(block)
        for block in back:
            self.free_block_queue.append(block)

    def reset_prefix_cache(self) -> None:
        self.cached_block_hash_to_block = {}
        for block in self.blocks:
            block.block_hash = None


class Request:
    stop_reason = None

    def __init__(self, request_id: str, prompt: list[int], max_tokens: int, priority: int = 0) -> None:
        self.request_id = request_id
        self.status = RequestStatus.WAITING
        self.num_prompt_tokens = len(prompt)
        self._all_token_ids = list(prompt)
        self.max_tokens = max_tokens
        self.priority = priority
        self.num_computed_tokens = 0
        self.num_in_flight_tokens = 0
        self.num_preemptions = 0


class FullAttentionManager:
    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.req_to_blocks: dict[str, list[KVCacheBlock]] = {}


class Scheduler:
    """``schedule``, then ``update_from_output``; ``add`` and ``abort`` between them."""

    def __init__(self, num_blocks: int, block_size: int, max_running: int = 4, budget: int = 24) -> None:
        self.connector: Any = None
        self._pause_state = PauseState.UNPAUSED
        self.running: list[Request] = []
        self.waiting: list[Request] = []
        self.requests: dict[str, Request] = {}
        self._size, self._max_running, self._budget = block_size, max_running, budget
        self._pool = BlockPool(num_blocks)
        self._tables = FullAttentionManager(block_size)
        self.kv_cache_manager = SimpleNamespace(
            block_pool=self._pool, coordinator=SimpleNamespace(single_type_managers=(self._tables,))
        )
        self.kv_cache_config = SimpleNamespace(kv_cache_tensors=[SimpleNamespace(size=num_blocks * block_size * 100)])
        self.vllm_config = SimpleNamespace(
            model_config=SimpleNamespace(served_model_name="stand-in", dtype="torch.bfloat16", max_model_len=512),
            device_config=SimpleNamespace(device_type="cpu"),
            scheduler_config=SimpleNamespace(max_num_seqs=max_running, max_num_batched_tokens=budget, policy="fcfs"),
            parallel_config=SimpleNamespace(data_parallel_index=0),
        )

    def add(self, request: Request) -> None:
        self.requests[request.request_id] = request
        self.waiting.append(request)

    def abort(self, request_id: str) -> None:
        self._finish(self.requests[request_id], RequestStatus.FINISHED_ABORTED)

    def reset_prefix_cache(self) -> bool:
        if self._pool.free_block_queue.num_free_blocks < len(self._pool.blocks) - 1:
            return False
        self._pool.reset_prefix_cache()
        return True

    def schedule(self) -> SchedulerOutput:
        scheduled = SchedulerOutput()
        if self._pause_state is PauseState.PAUSED_ALL:
            return scheduled
        budget = self._budget
        preempted = False
        for request in list(self.running):
            if request not in self.running or budget == 0:
                continue
            count = min(budget, len(request._all_token_ids) - request.num_computed_tokens)
            while not self._allocate(request, request.num_computed_tokens + count):
                victim = self.running.pop()
                self._preempt_request(victim, 0.0)
                preempted = True
                if victim is request:
                    break
            else:
                scheduled[request.request_id] = count
                budget -= count
        while self.waiting and not preempted and budget and len(self.running) < self._max_running:
            request = self.waiting[0]
            hits = self._hits(request)
            count = min(budget, len(request._all_token_ids) - len(hits) * self._size)
            fresh = -(-(len(hits) * self._size + count) // self._size) - len(hits)
            revived = sum(1 for block in hits if block.ref_cnt == 0)
            if fresh + revived > self._pool.free_block_queue.num_free_blocks:
                break
            for block in hits:
                self._pool.touch(block)
            self._tables.req_to_blocks[request.request_id] = hits
            request.num_computed_tokens = len(hits) * self._size
            assert self._allocate(request, request.num_computed_tokens + count)
            self.running.append(self.waiting.pop(0))
            request.status = RequestStatus.RUNNING
            scheduled[request.request_id] = count
            budget -= count
        for request_id, count in scheduled.items():
            self.requests[request_id].num_computed_tokens += count
            self.requests[request_id].num_in_flight_tokens += count
        return scheduled

    def update_from_output(self, scheduled: SchedulerOutput, token: int) -> None:
        for request_id, count in scheduled.items():
            request = self.requests.get(request_id)
            if request is None or request.status is not RequestStatus.RUNNING:
                continue
            request.num_in_flight_tokens -= count
            if request.num_computed_tokens == len(request._all_token_ids):
                request._all_token_ids.append(token)
                if len(request._all_token_ids) - request.num_prompt_tokens >= request.max_tokens:
                    self._finish(request, RequestStatus.FINISHED_LENGTH_CAPPED)

    def _preempt_request(self, request: Request, timestamp: float) -> None:
        self._pool.free_blocks(self._tables.req_to_blocks.pop(request.request_id))
        request.status = RequestStatus.PREEMPTED
        request.num_computed_tokens = request.num_in_flight_tokens = 0
        request.num_preemptions += 1
        self.waiting.insert(0, request)

    def _finish(self, request: Request, status: RequestStatus) -> None:
        request.status = status
        (self.running if request in self.running else self.waiting).remove(request)
        self._pool.free_blocks(self._tables.req_to_blocks.pop(request.request_id, []))
        del self.requests[request.request_id]

    def _allocate(self, request: Request, tokens: int) -> bool:
        table = self._tables.req_to_blocks[request.request_id]
        needed = -(-tokens // self._size) - len(table)
        if needed > self._pool.free_block_queue.num_free_blocks:
            return False
        table += [self._pool.get_new_block() for _ in range(needed)]
        for logical, content in enumerate(self._contents(request, tokens // self._size)):
            if table[logical].block_hash is None:
                table[logical].block_hash = content
                self._pool.cached_block_hash_to_block.setdefault(content, []).append(table[logical])
        return True

    def _hits(self, request: Request) -> list[KVCacheBlock]:
        index = self._pool.cached_block_hash_to_block
        found = []
        for content in self._contents(request, (len(request._all_token_ids) - 1) // self._size):
            if content not in index:
                break
            found.append(index[content][0])
        return found

    def _contents(self, request: Request, blocks: int) -> list[bytes]:
        """Chained hashes of the first blocks, each with its group's number behind it."""
        contents, parent = [], b""
        for i in range(blocks):
            tokens = request._all_token_ids[i * self._size : (i + 1) * self._size]
            parent = hashlib.sha256(parent + repr(tokens).encode()).digest()
            contents.append(parent + bytes(4))
        return contents
