"""What the terminal can show: how many colours, and whether it has more than plain ASCII.

Decided once at start, from the environment and what Rich makes of it; nothing is asked of the terminal itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvtop.view.colours import Depth

_PLAIN_TERMS = ("dumb", "unknown")
_SMALL_FONT_TERMS = ("linux", "vt100", "vt220", "ansi", *_PLAIN_TERMS)
"""Terminals whose fonts lack braille, superscripts and the finer marks."""


@dataclass(frozen=True, slots=True)
class Terminal:
    depth: Depth
    fine_marks: bool
    """Superscripts, triangles and eighth blocks can be shown."""


def detect(environ: Mapping[str, str], color_system: str | None) -> Terminal:
    """``color_system`` is Rich's finding: ``truecolor``, ``256``, ``standard`` or None."""
    term = environ.get("TERM", "").lower()
    depths = {"truecolor": Depth.TRUE, "256": Depth.PALETTE, "standard": Depth.ANSI, "windows": Depth.ANSI}
    depth = depths.get(color_system or "", Depth.NONE)
    if environ.get("NO_COLOR") is not None or term in _PLAIN_TERMS:
        depth = Depth.NONE
    return Terminal(depth, fine_marks=term not in _SMALL_FONT_TERMS)
