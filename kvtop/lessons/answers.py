"""What a student typed → a number, or which of the choices; a line that says what was expected where it is neither."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"\s*([-+]?[\d,_ ]*\.?\d+)\s*[A-Za-z%]*\s*")


def number_of(text: str) -> float:
    """A number, with or without thousands set apart and a unit behind it.

    Raises:
        ValueError: it is none.
    """
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise ValueError("A number is expected, such as 12.")
    return float(re.sub(r"[,_ ]", "", found[1]))


def choice_of(text: str, choices: Sequence[str]) -> int:
    """The index of a choice, named by its number on the screen (from 1) or its words.

    Raises:
        ValueError: it is none of them.
    """
    wanted = text.strip().casefold()
    for index, words in enumerate(choices):
        if wanted in (str(index + 1), words.casefold()):
            return index
    raise ValueError(f"The number of an answer is expected, 1 to {len(choices)}.")
