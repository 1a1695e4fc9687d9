"""What one running sequence holds of a pool, and how much of it it uses: from trials and engines to pictures."""

from __future__ import annotations

from typing import NamedTuple


class Holding(NamedTuple):
    name: str
    admission: int
    """Rises with every admission: while it is the same, blocks of a trial's table stay and others follow them."""
    blocks: list[int]
    """Its block table; of a counted reservation, which has no places, empty."""
    held_slots: int
    tokens: int
    """Prompt and generated tokens, each of which fills a slot."""
    final_tokens: int
    """What ``tokens`` will be when its answer is complete: the lab knows, the policies don't."""
