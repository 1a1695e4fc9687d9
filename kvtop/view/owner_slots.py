"""Who is drawn how: a sequence gets a slot (an index into the theme's owner colours, and a glyph) when it is admitted
and keeps it until it ends.

A slot that came free is used again as late as possible, so colours don't jump from one owner to the next. Blocks of an
ended owner (cached ones) keep its slot until the slot goes to somebody else; from then on their owner has none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

GLYPHS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
NO_SLOT = -1


def glyph(slot: int) -> str:
    """The letter or digit of a slot; past the 62nd owner at once they repeat. ``·`` for no slot."""
    return GLYPHS[slot % len(GLYPHS)] if slot >= 0 else "·"


class OwnerSlots:
    """Sequence → slot. Slots below 62 are used first; more are made when more owners live at once."""

    def __init__(self) -> None:
        self._slot_of: dict[int, int] = {}
        """Living sequences, and ended ones whose slot nobody took yet."""
        self._last_user: dict[int, int] = {}
        self._free: deque[int] = deque(range(len(GLYPHS)))
        self._free_beyond: deque[int] = deque()
        self._made = len(GLYPHS)
        self._sequences = np.empty(0, np.int64)
        self._slots = np.empty(0, np.int16)
        self._stale = False
        self.assignments = 0
        """How often a sequence got a slot: while it stands, no block's slot changed without the block changing."""

    def assign(self, seq: int) -> int:
        """The slot of a sequence that is admitted: the one it has, or the one that has been free the longest."""
        if seq in self._slot_of:
            return self._slot_of[seq]
        if self._free:
            slot = self._free.popleft()
        elif self._free_beyond:
            slot = self._free_beyond.popleft()
        else:
            slot = self._made
            self._made += 1
        if slot in self._last_user:
            del self._slot_of[self._last_user[slot]]
        self._slot_of[seq] = slot
        self._last_user[slot] = seq
        self._stale = True
        self.assignments += 1
        return slot

    def release(self, seq: int) -> None:
        """The sequence ended; without a slot, nothing happens."""
        slot = self._slot_of.get(seq)
        if slot is not None:
            (self._free if slot < len(GLYPHS) else self._free_beyond).append(slot)

    def slot_of(self, seq: int) -> int:
        """The slot of one sequence, NO_SLOT when it has none (any more)."""
        return self._slot_of.get(seq, NO_SLOT)

    def slots_of(self, sequences: npt.NDArray[np.int64]) -> npt.NDArray[np.int16]:
        """int16[n]: the slot of each of ``sequences`` (int64[n]), NO_SLOT where one has none. Made for a screenful or a
        whole pool at once (100,000 in about 2 ms)."""
        if self._stale:
            ordered = sorted(self._slot_of.items())
            self._sequences = np.array([seq for seq, _ in ordered], np.int64)
            self._slots = np.array([slot for _, slot in ordered], np.int16)
            self._stale = False
        if not len(self._sequences):
            return np.full(len(sequences), NO_SLOT, np.int16)
        found = np.searchsorted(self._sequences, sequences).clip(max=len(self._sequences) - 1)
        return np.where(self._sequences[found] == sequences, self._slots[found], np.int16(NO_SLOT))

    def save(self) -> tuple[list[tuple[int, int]], list[int], list[int], int]:
        """The state as plain data, for :meth:`restored`."""
        return sorted(self._slot_of.items()), list(self._free), list(self._free_beyond), self._made

    @classmethod
    def restored(
        cls, owners: Iterable[tuple[int, int]], free: Iterable[int], free_beyond: Iterable[int], made: int
    ) -> OwnerSlots:
        slots = cls()
        slots._slot_of = dict(owners)
        slots._last_user = {slot: seq for seq, slot in slots._slot_of.items()}
        slots._free = deque(free)
        slots._free_beyond = deque(free_beyond)
        slots._made = made
        slots._stale = True
        return slots
