"""A block table: logical block → physical block of one sequence.

Append-only while the sequence runs, but for one exception: copy-on-write replaces an entry. Slot of position p is
``blocks[p // block_size] * block_size + p % block_size``.
"""

from __future__ import annotations


class BlockTable:
    """``block_ids[i]`` is the physical block that holds positions i * block_size to (i + 1) * block_size - 1."""

    __slots__ = ("block_ids", "block_size")

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.block_ids: list[int] = []

    def __len__(self) -> int:
        return len(self.block_ids)

    def slot(self, position: int) -> int:
        """The slot (block * block_size + offset) of a token position."""
        return self.block_ids[position // self.block_size] * self.block_size + position % self.block_size

    def slots(self, start: int, stop: int) -> list[int]:
        """The slots of positions ``start`` to ``stop - 1``."""
        size, ids = self.block_size, self.block_ids
        return [ids[position // size] * size + position % size for position in range(start, stop)]


def blocks_for(tokens: int, block_size: int) -> int:
    """Blocks that hold ``tokens`` tokens: ceil(tokens / block_size)."""
    return -(-tokens // block_size)
