"""What every attention kernel is told: the step's batch, where a layer's KV lies, and how the layer attends.

One idea: the new tokens of all sequences lie one after the other (no padding); ``query_starts`` says where each
sequence's begin, ``block_tables`` where its context lies. Sequences that compute one token (decodes) come first, so
a kernel may treat them as a batch of equal rows; the runner sorts them by context. Nothing here computes.

    tokens        a │ b │ c c c c │ d d d         query_starts [0, 1, 2, 6, 9], num_decodes 2
    context_lens  17, 40, 4, 19                   d: 3 new tokens at positions 16, 17, 18
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(slots=True, frozen=True)
class PagedBatch:
    """All tensors lie on the pools' device; the ``host_`` ones are their twins on the CPU, for planning."""

    block_size: int
    num_decodes: int
    slots: torch.Tensor
    """int64 [tokens]: where each new token's K and V go."""
    block_tables: torch.Tensor
    """int32 [sequences, max_blocks]: logical → physical block; 0 beyond a sequence's last block."""
    context_lens: torch.Tensor
    """int32 [sequences]: tokens of context, those of this step included."""
    query_starts: torch.Tensor
    """int32 [sequences + 1]: sequence i computes tokens query_starts[i] to query_starts[i + 1] - 1."""
    host_block_tables: torch.Tensor
    host_context_lens: list[int]
    host_query_starts: list[int]


@dataclass(slots=True, frozen=True)
class AttentionRule:
    """How one layer attends. The query at position p sees the key at position k ≤ p if it is among the last ``window``
    (k > p - window) and in the same chunk (k // chunk == p // chunk); 0 lifts the limit."""

    scaling: float
    """Multiplies the product of query and key."""
    window: int = 0
    chunk: int = 0
    softcap: float = 0.0
    """Scores become softcap * tanh(score / softcap), after scaling; 0: no cap."""
    sinks: torch.Tensor | None = None
    """[query_heads]: a logit a head that joins the softmax's denominator and carries no value."""

    def first_visible(self, position: int) -> int:
        """The first key that the query at ``position`` sees."""
        first = max(0, position - self.window + 1) if self.window else 0
        return max(first, position // self.chunk * self.chunk) if self.chunk else first


class LayerPool:
    """K and V of one layer: ``key`` and ``value``, each [num_blocks, block_size, kv_heads, dim] with its own strides.

    In memory a pool is either token-major, as its shape reads, or head-major: a head's slots lie side by side, so that
    a gathered context is a ready operand of a batched matrix product. Either way slot s of the pool is s rows after
    slot 0, and the last dimension is contiguous.
    """

    __slots__ = ("key", "value")

    def __init__(self, key: torch.Tensor, value: torch.Tensor) -> None:
        self.key = key
        self.value = value

    @classmethod
    def allocate(
        cls,
        num_blocks: int,
        block_size: int,
        kv_heads: int,
        key_dim: int,
        value_dim: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
        head_major: bool = False,
        pinned: bool = False,
    ) -> LayerPool:
        """A pool of zeros: every page of it is touched, so that no step pays for that later."""

        def zeros(dim: int) -> torch.Tensor:
            order = (kv_heads, num_blocks, block_size) if head_major else (num_blocks, block_size, kv_heads)
            pool = torch.empty(*order, dim, dtype=dtype, device=device, pin_memory=pinned).zero_()
            return pool.permute(1, 2, 0, 3) if head_major else pool

        return cls(zeros(key_dim), zeros(value_dim))

    @property
    def dtype(self) -> torch.dtype:
        return self.key.dtype

    def fill(self, number: float) -> None:
        """Overwrite every slot."""
        self.key.fill_(number)
        self.value.fill_(number)
