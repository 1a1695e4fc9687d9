"""The block pool: every physical KV block is exactly one of free, cached or active.

    free     nobody holds it and its content is worth nothing
    cached   nobody holds it, but its content is in the prefix index: evictable
    active   at least one block table holds it (ref count > 0)

Free and cached blocks hang in two queues, linked through the blocks themselves, so that taking a block out of the
middle (a cached block is hit again, a region is carved out) costs the same as taking the head: O(1). Free blocks are
handed out in the order they came back; cached ones are evicted least recently used first. A table is released last
block first, so the tail of a sequence is evicted before its head and a cached prefix never loses its root first.
The pool knows no sequences: it counts references, and keeps the id of whoever a block was handed to for display.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kvtop.engine.prefix import PrefixIndex, PrefixKey


class Block:
    """One physical block. ``previous`` and ``next`` are set while it hangs in a queue."""

    __slots__ = ("block_id", "next", "owner", "previous", "ref_count")

    def __init__(self, block_id: int) -> None:
        self.block_id = block_id
        self.ref_count = 0
        self.owner = 0
        self.previous: Block | None = None
        self.next: Block | None = None


class BlockQueue:
    """A doubly linked queue of blocks with a sentinel at each end."""

    __slots__ = ("_head", "_tail", "size")

    def __init__(self) -> None:
        self._head = Block(-1)
        self._tail = Block(-1)
        self._head.next, self._tail.previous = self._tail, self._head
        self.size = 0

    def append(self, block: Block) -> None:
        last = self._tail.previous
        assert last is not None
        block.previous, block.next = last, self._tail
        last.next = self._tail.previous = block
        self.size += 1

    def remove(self, block: Block) -> None:
        previous, following = block.previous, block.next
        assert previous is not None and following is not None, f"block {block.block_id} hangs in no queue"
        previous.next, following.previous = following, previous
        block.previous = block.next = None
        self.size -= 1

    def popleft(self) -> Block:
        first = self._head.next
        assert first is not None and first is not self._tail, "the queue is empty"
        self.remove(first)
        return first

    def __iter__(self) -> Iterator[int]:
        """Block ids from the head on."""
        block = self._head.next
        while block is not None and block is not self._tail:
            yield block.block_id
            block = block.next

    def __reversed__(self) -> Iterator[int]:
        block = self._tail.previous
        while block is not None and block is not self._head:
            yield block.block_id
            block = block.previous


class BlockPool:
    """``num_blocks`` blocks of ``block_size`` slots, and the prefix index over them.

    ``num_free + num_cached + num_active == num_blocks`` always. Methods that take blocks assume that the caller checked
    there are enough; they raise ValueError and change nothing otherwise.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.blocks = [Block(i) for i in range(num_blocks)]
        self.free = BlockQueue()
        self.cached = BlockQueue()
        self.index = PrefixIndex()
        self._occupied = bytearray(num_blocks)  # 0 where a block is free: lets C search for a hole
        for block in self.blocks:
            self.free.append(block)

    @property
    def num_free(self) -> int:
        return self.free.size

    @property
    def num_cached(self) -> int:
        return self.cached.size

    @property
    def num_active(self) -> int:
        return self.num_blocks - self.free.size - self.cached.size

    @property
    def num_available(self) -> int:
        """Blocks that can be had without taking one from a sequence: free or evictable."""
        return self.free.size + self.cached.size

    def ref_count(self, block_id: int) -> int:
        return self.blocks[block_id].ref_count

    def allocate(self, count: int, owner: int) -> list[int]:
        """Hand out ``count`` free blocks, each with ref count 1."""
        if count > self.free.size:
            raise ValueError(f"asked for {count} blocks, {self.free.size} are free")
        return [self._hand_out(self.free.popleft(), owner) for _ in range(count)]

    def allocate_region(self, count: int, owner: int) -> list[int] | None:
        """Hand out ``count`` free blocks that lie side by side, the first such hole from block 0 on; None if none
        does."""
        first = self._occupied.find(bytes(count))
        if first < 0:
            return None
        region = self.blocks[first : first + count]
        for block in region:
            self.free.remove(block)
        return [self._hand_out(block, owner) for block in region]

    def _hand_out(self, block: Block, owner: int) -> int:
        block.ref_count = 1
        block.owner = owner
        self._occupied[block.block_id] = 1
        return block.block_id

    def hold(self, block_id: int, owner: int) -> None:
        """One more table holds this active or cached block."""
        block = self.blocks[block_id]
        if block.ref_count == 0:
            self.cached.remove(block)
            block.owner = owner
        block.ref_count += 1

    def release(self, block_ids: Sequence[int]) -> tuple[int, int]:
        """A table (in table order) lets go of its blocks, last first; how many became free and how many cached."""
        to_free = to_cached = 0
        for block_id in reversed(block_ids):
            block = self.blocks[block_id]
            if block.ref_count == 0:
                raise ValueError(f"block {block_id} is released but nobody holds it")
            block.ref_count -= 1
            if block.ref_count == 0:
                if self.index.key_of(block_id) is None:
                    self._set_free(block)
                    to_free += 1
                else:
                    self.cached.append(block)
                    to_cached += 1
        return to_free, to_cached

    def _set_free(self, block: Block) -> None:
        self.free.append(block)
        self._occupied[block.block_id] = 0

    def evict(self, count: int) -> list[int]:
        """Forget the ``count`` least recently used cached blocks; they become free. Returned in that order."""
        if count > self.cached.size:
            raise ValueError(f"asked to evict {count} blocks, {self.cached.size} are cached")
        evicted = []
        for _ in range(count):
            block = self.cached.popleft()
            self.index.forget(block.block_id)
            self._set_free(block)
            evicted.append(block.block_id)
        return evicted

    def index_block(self, key: PrefixKey, block_id: int) -> bool:
        """Offer a full, computed, active block to the prefix index; False when that content is indexed already."""
        return self.index.key_of(block_id) is None and self.index.add(key, block_id)

    def clear_index(self) -> tuple[list[int], int]:
        """Empty the prefix index: the cached blocks that became free, in order, and how many active ones lost their
        key."""
        indexed = len(self.index)
        freed = self.evict(self.cached.size)
        for block_id in self.index.blocks():
            self.index.forget(block_id)
        return freed, indexed - len(freed)

    def largest_hole(self) -> int:
        """The most free blocks that lie side by side. O(num_blocks)."""
        return max((len(hole) for hole in bytes(self._occupied).split(b"\x01")), default=0)

    def has_hole(self, count: int) -> bool:
        """Whether ``count`` free blocks lie side by side."""
        return self._occupied.find(bytes(count)) >= 0


def distinct(block_ids: Iterable[int]) -> list[int]:
    """The ids without repeats, in first-seen order."""
    return list(dict.fromkeys(block_ids))
