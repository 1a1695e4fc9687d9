"""The grid's other modes: not who holds a block, but how often, how lately, how full, and shared or not.

A mode gives every block a tone, a small number; palette and letters give the tone a colour and a sign. NumPy only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from kvtop.view.pool_view import PoolView

Mode = Literal["owner", "refs", "age", "fill", "sharing"]
MODES: tuple[Mode, ...] = ("owner", "refs", "age", "fill", "sharing")
TOP_TONE = 7
"""Tones run from 0 to this; NONE is a block with nothing to tell."""
NONE = -1


@dataclass(frozen=True, slots=True)
class ModeWords:
    title: str
    letters: str
    """The sign of each tone."""
    legend: tuple[tuple[int, str], ...]
    """Tones worth explaining."""


WORDS: dict[Mode, ModeWords] = {
    "owner": ModeWords("owner", "", ()),
    "refs": ModeWords("ref count", "01234567", ((1, "one table"), (2, "two"), (4, "four"), (7, "seven or more"))),
    "age": ModeWords("age", "76543210", ((7, "this step"), (5, "3 steps ago"), (3, "15"), (1, "63"), (0, "longer"))),
    "fill": ModeWords("fill", "▁▂▃▄▅▆▇█", ((0, "almost empty"), (3, "half"), (7, "full"))),
    "sharing": ModeWords("sharing", "opcs", ((0, "its own"), (1, "can be found"), (2, "cached"), (3, "shared now"))),
}


def tones(view: PoolView, mode: Mode) -> npt.NDArray[np.int64]:
    """int64[num_blocks]: the tone of every block in a mode other than "owner".

    refs: ref count up to 7. age: how lately it was written or changed hands, 7 for this step and one less for 1, 2–3,
    4–7, … steps. fill: eighths of its slots. sharing: own, in the prefix index, cached, held by several.
    """
    blocks = view.blocks
    held, indexed = blocks.ref_counts > 0, blocks.hashes != 0
    if mode == "refs":
        tone = np.minimum(blocks.ref_counts, TOP_TONE)
    elif mode == "age":
        touched = np.maximum(blocks.changed_step, blocks.written_step)
        steps = np.maximum(view.step - touched, 0)
        tone = np.where(touched < 0, 0, TOP_TONE - np.minimum(np.ceil(np.log2(steps + 1)), TOP_TONE))
    elif mode == "fill":
        tone = np.minimum(blocks.fills * (TOP_TONE + 1) // view.block_size, TOP_TONE)
    else:
        tone = np.where(blocks.ref_counts > 1, 3, np.where(~held, 2, np.where(indexed, 1, 0)))
    return np.where(held | indexed, tone, NONE).astype(np.int64)
