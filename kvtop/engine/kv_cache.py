"""The memory behind the block pool: K and V of every layer, and the swap space on the CPU.

One idea: a block id means the same slots in every layer, so moving a block moves it in all of them. The class knows
no sequences; which block holds what is the scheduler's business. Memory is touched once, when it is allocated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch

from kvtop.engine.move_stream import move_stream
from kvtop.engine.plan import Transfer
from kvtop.kernels.dispatch import Kernels
from kvtop.kernels.paged import LayerPool


@dataclass(slots=True, frozen=True)
class LayerShape:
    """What one layer keeps of a token: ``kv_heads`` keys of ``key_dim`` and values of ``value_dim`` numbers."""

    kv_heads: int
    key_dim: int
    value_dim: int

    @property
    def width(self) -> int:
        """Numbers a token."""
        return self.kv_heads * (self.key_dim + self.value_dim)


def kv_bytes_per_token(shapes: Iterable[LayerShape], dtype: torch.dtype) -> int:
    """Bytes of K and V a token, all layers."""
    return sum(shape.width for shape in shapes) * dtype.itemsize


class KVCache:
    """``layers[i]`` is the pool of the i-th attention layer; ``swap[i]`` its swap space. A forward takes its pools from
    :meth:`layer`, which waits for moves."""

    def __init__(
        self,
        shapes: list[LayerShape],
        *,
        num_blocks: int,
        block_size: int,
        swap_blocks: int,
        dtype: torch.dtype,
        device: torch.device,
        kernels: Kernels,
    ) -> None:
        """
        Raises:
            RuntimeError: the device (torch.OutOfMemoryError on CUDA) or the CPU has too little memory.
        """
        self.block_size = block_size
        self.num_blocks = num_blocks
        self.kernels = kernels
        self._device = device
        cpu = torch.device("cpu")

        def allocate(shape: LayerShape, blocks: int, place: torch.device) -> LayerPool:
            return LayerPool.allocate(
                blocks,
                block_size,
                shape.kv_heads,
                shape.key_dim,
                shape.value_dim,
                dtype=dtype,
                device=place,
                head_major=kernels.head_major,
                pinned=place != device and blocks > 0,
            )

        self.layers = [allocate(shape, num_blocks, device) for shape in shapes]
        self.swap = [allocate(shape, swap_blocks, cpu) for shape in shapes]
        self.moves = move_stream(device, len(shapes))

    def layer(self, place: int) -> LayerPool:
        """The pool of the layer at ``place``, for reading and writing: blocks that are moved have arrived."""
        self.moves.wait_for(place)
        return self.layers[place]

    def move(self, transfers: list[Transfer]) -> None:
        """Carry the transfers out in order, those together that cannot disturb one another."""
        if not transfers:
            return
        with self.moves.moving():
            runs = [(kind, torch.tensor(pairs, device=self._device)) for kind, pairs in independent_runs(transfers)]
            for place, (pool, swap) in enumerate(zip(self.layers, self.swap, strict=True)):
                for kind, pairs in runs:
                    source = swap if kind == "swap_in" else pool
                    target = swap if kind == "swap_out" else pool
                    self.kernels.copy_blocks(source, target, pairs)
                self.moves.moved(place)


def independent_runs(transfers: list[Transfer]) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Cut a list of transfers, in order, into runs of one kind that may be done in any order: no block of a run is
    written twice, and none is both written and read."""
    pairs: list[tuple[int, int]] = []
    kind = ""
    read: set[int] = set()
    written: set[int] = set()
    for transfer in transfers:
        touches = transfer.dst in written
        if transfer.kind == "copy":
            touches |= transfer.src in written or transfer.dst in read
        if pairs and (transfer.kind != kind or touches):
            yield kind, pairs
            pairs, read, written = [], set(), set()
        kind = transfer.kind
        pairs.append((transfer.src, transfer.dst))
        read.add(transfer.src)
        written.add(transfer.dst)
    if pairs:
        yield kind, pairs
