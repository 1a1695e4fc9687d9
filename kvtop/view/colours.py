"""Colour arithmetic for the screen: parse, mix, choose ink, and what a poorer terminal makes of a colour.

A colour is three integers 0..255. Owners are told apart by colour *and* glyph, since beyond about twelve owners
colours alone can't be; this module knows colours only and never a theme, a widget or a terminal.
"""

from __future__ import annotations

import functools
import re
from enum import IntEnum

Rgb = tuple[int, int, int]

_HEX = re.compile(r"#([0-9a-fA-F]{6})")
_CUBE = (0, 95, 135, 175, 215, 255)

ANSI_NAMES = (
    "black", "red", "green", "yellow", "blue", "magenta", "cyan", "white",
    "bright_black", "bright_red", "bright_green", "bright_yellow",
    "bright_blue", "bright_magenta", "bright_cyan", "bright_white",
)  # fmt: skip
"""The sixteen colours every colour terminal has, by number."""


class Depth(IntEnum):
    """How many colours a terminal shows."""

    NONE = 0
    ANSI = 16
    PALETTE = 256
    TRUE = 1 << 24


def parse_hex(text: str) -> Rgb:
    """``"#78aef2"`` → (120, 174, 242). Raises ValueError for anything else."""
    match = _HEX.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a colour, expected #rrggbb")
    number = int(match[1], 16)
    return number >> 16, number >> 8 & 255, number & 255


def to_hex(colour: Rgb) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def mix(below: Rgb, above: Rgb, share: float) -> Rgb:
    """``above`` laid over ``below``; share 0 gives ``below``, 1 gives ``above``."""
    r, g, b = (round(x + (y - x) * share) for x, y in zip(below, above, strict=True))
    return r, g, b


def luminance(colour: Rgb) -> float:
    """Relative luminance, 0 (black) to 1 (white), as WCAG 2 defines it."""
    r, g, b = (c / 3294.6 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: Rgb, other: Rgb) -> float:
    """WCAG contrast ratio, 1 (the same) to 21 (black on white)."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@functools.lru_cache(4096)
def nearest_256(colour: Rgb) -> int:
    """The number, 16 to 255, of the closest colour in the xterm palette (its first 16 differ between terminals)."""
    levels = [min(range(6), key=lambda i, c=c: abs(_CUBE[i] - c)) for c in colour]  # type: ignore[misc]
    grey = max(0, min(23, round((sum(colour) / 3 - 8) / 10)))
    cube = (_CUBE[levels[0]], _CUBE[levels[1]], _CUBE[levels[2]])
    if _distance(colour, (8 + 10 * grey,) * 3) < _distance(colour, cube):
        return 232 + grey
    return 16 + 36 * levels[0] + 6 * levels[1] + levels[2]


def _distance(one: Rgb, other: Rgb) -> int:
    return sum((x - y) ** 2 for x, y in zip(one, other, strict=True))
