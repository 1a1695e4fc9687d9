"""Rules about memory that is held and holds nothing: tails of blocks that are too large, reservations too generous."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtop.view.finding import Case, Rule
from kvtop.view.waste import measure_waste
from kvtop.view.words import count, share, size

if TYPE_CHECKING:
    from kvtop.view.pool_view import PoolView

LEAST_RUNNING = 4
SMALL_WASTE = 0.05
"""A block size is small enough when its tails would take no more than this."""


def blocks_too_large(view: PoolView, now_s: float, held: bool) -> Case | None:
    """Much of what is held are empty tails of last blocks."""
    waste = measure_waste(view)
    running = len(view.with_status("running"))
    if waste is None or not waste.internal or view.block_size == 1 or running < LEAST_RUNNING:
        return None
    if waste.internal < (0.12 if held else 0.18) * waste.held:
        return None
    better = _block_size_for(waste.live, running, view.block_size)
    tails = _tails(better, running)
    empty = f"{share(waste.internal, waste.held)} of held slots are empty tails"
    return Case(
        "warning",
        "blocks are large for what they hold",
        f"{empty}, {size(waste.internal * waste.slot_bytes)}: {waste.internal / running:.0f} of {view.block_size} in "
        f"the last block of each of {count(running, 'sequence')}",
        f"--block-size {better} would leave about {share(tails, waste.live + tails)} empty",
    )


def _tails(block_size: int, sequences: int) -> float:
    """Slots that are empty on average: a last block is half full."""
    return sequences * (block_size - 1) / 2


def _block_size_for(live: int, sequences: int, now: int) -> int:
    """The largest power of two below ``now`` whose tails would be a small part of what is held."""
    better = now // 2
    while better > 1 and _tails(better, sequences) > SMALL_WASTE * (live + _tails(better, sequences)):
        better //= 2
    return better


def reservations_unfilled(view: PoolView, now_s: float, held: bool) -> Case | None:
    """Most of what is reserved holds no token, and as ended requests show, much of it never will."""
    waste = measure_waste(view)
    running = view.with_status("running")
    if waste is None or view.info is None or not waste.reserved_unfilled or not running:
        return None
    if waste.reserved_unfilled < (0.3 if held else 0.4) * waste.held:
        return None
    ended = waste.ended_filled + waste.ended_unfilled
    never = f"; of what ended requests held, {share(waste.ended_unfilled, ended)} was never filled" if ended else ""
    live_each = max(1.0, waste.live / len(running)) + view.block_size / 2
    return Case(
        "warning",
        "reservations stand empty",
        f"{share(waste.reserved_unfilled, waste.held)} of held slots hold no token, "
        f"{size(waste.reserved_unfilled * waste.slot_bytes)}, while {len(running):,} run{never}",
        f"--policy paged takes blocks as they are filled: about {int(waste.total / live_each):,} sequences of this "
        "length would fit at once",
    )


RULES = (
    Rule("block-size", blocks_too_large, after_s=10.0),
    Rule("reservation", reservations_unfilled, after_s=5.0),
)
