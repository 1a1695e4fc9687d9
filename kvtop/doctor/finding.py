"""What a check found: the one type all checks return.

``fail`` is kept for what keeps the engine from running; everything that merely runs worse, or is not yet here, is
``warn``. Whatever is not well says in one line what to do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """``value`` is a line for people, "–" where nothing is known. It may hold text from outside: not cleaned."""

    name: str
    state: State
    value: str
    advice: str = ""
    """What to do; empty when all is well."""
    figures: dict[str, float] = field(default_factory=dict)
    """Measured numbers for programs, units in their names."""


def first_line(error: BaseException) -> str:
    """An exception in one line: its type and the first line of what it says."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__
