"""Small pieces of plain English that every panel says alike: counts, bytes, spans of blocks, times, who is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtop.engine.events import Run
from kvtop.view.owner_slots import glyph

if TYPE_CHECKING:
    from kvtop.view.pool_view import PoolView

UNKNOWN = "–"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def count(number: int, noun: str) -> str:
    """``1 block``, ``2 blocks``, ``1,284 blocks``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(number: float) -> str:
    """Bytes for people: ``22.5 KiB``, ``360 MiB``."""
    power = 0
    while number >= 1024 and power < len(_UNITS) - 1:
        number /= 1024
        power += 1
    unit = _UNITS[power]
    return f"{number:.0f} {unit}" if number >= 100 or number == int(number) else f"{number:.1f} {unit}"


def share(part: float, whole: float) -> str:
    """``61%``; unknown when the whole is 0. Never rounds to 0% or 100% what is neither."""
    if not whole:
        return UNKNOWN
    if 0 < part < 0.005 * whole:
        return "<1%"
    if 0.995 * whole < part < whole:
        return ">99%"
    return f"{100 * part / whole:.0f}%"


def duration(seconds: float | None) -> str:
    """``0.42 s``, ``41 s``, ``3 min 20 s``, ``2 h 5 min``; None is unknown."""
    if seconds is None:
        return UNKNOWN
    if seconds < 9.95:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def spans(runs: list[Run], view: PoolView, most: int = 4) -> str:
    """Block ids, as the engine itself numbers them: ``4–6, 9``; beyond ``most`` runs stands an ellipsis."""
    begun = [(view.block_id(first), length) for first, length in runs[:most]]
    shown = [f"{first}" if length == 1 else f"{first}–{first + length - 1}" for first, length in begun]
    return ", ".join(shown) + (", …" if len(runs) > most else "")


def blocks_in(runs: list[Run]) -> int:
    return sum(length for _, length in runs)


def who(view: PoolView, seq: int) -> str:
    """A sequence as the grid shows it and as people call it: ``A req-17``; just the name when it has no slot."""
    slot = view.slots.slot_of(seq)
    return f"{glyph(slot)} {view.name_of(seq)}" if slot >= 0 else view.name_of(seq)
