"""How large a KV pool is, in blocks, tokens, bytes and whole requests: what an engine says of itself at its start."""

from __future__ import annotations

from dataclasses import dataclass

from kvtop.engine.events import EngineInfo
from kvtop.engine.tables import blocks_for


@dataclass(slots=True, frozen=True)
class PoolSize:
    """A pool of ``num_blocks`` usable blocks."""

    num_blocks: int
    block_size: int
    kv_bytes_per_token: int

    @property
    def block_bytes(self) -> int:
        return self.block_size * self.kv_bytes_per_token

    @property
    def pool_bytes(self) -> int:
        return self.num_blocks * self.block_bytes

    @property
    def tokens(self) -> int:
        return self.num_blocks * self.block_size

    def in_blocks_of(self, block_size: int) -> PoolSize:
        """As much memory in blocks of another size."""
        block_bytes = block_size * self.kv_bytes_per_token
        return PoolSize(self.pool_bytes // block_bytes, block_size, self.kv_bytes_per_token)

    def concurrency(self, max_model_len: int) -> int:
        """Requests of ``max_model_len`` tokens that fit at once."""
        return self.num_blocks // blocks_for(max_model_len, self.block_size)

    def report(self, max_model_len: int) -> list[str]:
        """What a serving engine prints at its start, a line each; the last for blocks of another common size."""
        other = self.in_blocks_of(32 if self.block_size == 16 else 16)
        return [
            f"pool: {self.num_blocks:,} blocks of {self.block_size} tokens, {format_bytes(self.pool_bytes)} "
            f"({format_bytes(self.kv_bytes_per_token)} a token)",
            f"room for {self.tokens:,} tokens: {self._room(max_model_len)}",
            f"in blocks of {other.block_size} tokens it would be {other.num_blocks:,} blocks, {other.tokens:,} tokens"
            + (f", at most {fitting:,} such requests" if (fitting := other.concurrency(max_model_len)) else ""),
        ]

    def _room(self, max_model_len: int) -> str:
        if fitting := self.concurrency(max_model_len):
            return f"at most {fitting:,} requests of max_model_len {max_model_len:,}"
        needed = blocks_for(max_model_len, self.block_size)
        return f"a request of max_model_len {max_model_len:,} would need {needed:,} blocks, shorter ones fit"

    def warning(self, max_model_len: int) -> str:
        """Why this pool may disappoint; empty when it does not."""
        if self.tokens >= max_model_len:
            return ""
        return (
            f"the pool holds {self.tokens:,} tokens, less than one request of max_model_len {max_model_len:,}: "
            "a request that grows beyond the pool ends with what it has"
        )


def no_swap_warning(preempt: str, swap: int) -> str:
    """Why preemption will not be what was asked for; empty when it will. ``swap``: the swap space, bytes or blocks."""
    if preempt != "swap" or swap:
        return ""
    return "preempt is swap, but there is no swap space: what is preempted is recomputed; give --swap-memory, say 1GiB"


def pool_of(info: EngineInfo) -> PoolSize:
    """The pool of a running engine."""
    return PoolSize(info.num_blocks, info.block_size, info.kv_bytes_per_token)


def format_bytes(count: float) -> str:
    """``22.5 KiB``, ``360 MiB``, ``1.5 GiB``: at most one decimal."""
    unit, *larger = "B", "KiB", "MiB", "GiB", "TiB"
    while count >= 1024 and larger:
        count /= 1024
        unit = larger.pop(0)
    return f"{count:.1f}".removesuffix(".0") + f" {unit}"
