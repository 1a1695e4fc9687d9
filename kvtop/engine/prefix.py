"""The prefix index: content of a full block, with everything before it → the physical block that holds it.

A key is a link in a chain: its parent, the block's token ids, and a salt. The digest chains too (it is what the
screen shows), but equality never trusts it: two keys are equal only if salt, tokens and every ancestor are, so a
hash collision is a miss and nothing else. The index does not own blocks; the pool tells it what to forget.
"""

from __future__ import annotations

import hashlib
from array import array


class PrefixKey:
    """Identity of a full block's content. ``digest``: 64 bits of BLAKE2b over the parent's digest, salt and tokens."""

    __slots__ = ("digest", "parent", "salt", "tokens")

    def __init__(self, parent: PrefixKey | None, tokens: tuple[int, ...], salt: str = "") -> None:
        self.parent = parent
        self.tokens = tokens
        self.salt = salt
        self.digest: int = digest(parent.digest if parent else 0, tokens, salt)

    def __hash__(self) -> int:
        return self.digest

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrefixKey):
            return NotImplemented
        mine: PrefixKey | None = self
        theirs: PrefixKey | None = other
        while mine is not theirs:  # ancestors are usually the same object, so this ends after one comparison
            if mine is None or theirs is None or mine.tokens != theirs.tokens or mine.salt != theirs.salt:
                return False
            mine, theirs = mine.parent, theirs.parent
        return True


def digest(parent: int, tokens: tuple[int, ...], salt: str) -> int:
    """64-bit content hash of a block, never 0 (0 means "not in the index")."""
    state = hashlib.blake2b(parent.to_bytes(8, "little"), digest_size=8)
    state.update(salt.encode("utf-8", "surrogatepass"))
    state.update(array("q", tokens).tobytes())
    return int.from_bytes(state.digest(), "little") or 1


class PrefixIndex:
    """At most one block a key, at most one key a block."""

    def __init__(self) -> None:
        self._block_of: dict[PrefixKey, int] = {}
        self._key_of: dict[int, PrefixKey] = {}

    def __len__(self) -> int:
        return len(self._block_of)

    def get(self, key: PrefixKey) -> int | None:
        return self._block_of.get(key)

    def key_of(self, block: int) -> PrefixKey | None:
        return self._key_of.get(block)

    def add(self, key: PrefixKey, block: int) -> bool:
        """Index ``block`` under ``key``; False, and nothing changes, when another block already holds that content."""
        if key in self._block_of:
            return False
        self._block_of[key] = block
        self._key_of[block] = key
        return True

    def forget(self, block: int) -> None:
        """Take a block out of the index, if it is in it."""
        key = self._key_of.pop(block, None)
        if key is not None:
            del self._block_of[key]

    def blocks(self) -> list[int]:
        """All indexed blocks, in the order they were added."""
        return list(self._key_of)

    def match(self, keys: list[PrefixKey]) -> list[int]:
        """The blocks of the longest indexed prefix of ``keys``."""
        found = []
        for key in keys:
            block = self._block_of.get(key)
            if block is None:
                break
            found.append(block)
        return found
