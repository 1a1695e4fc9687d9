"""Text typed by a person → a checked value, for flags, environment and config file alike.

Each parser takes text and returns the value, or raises a ValueError whose message says what was expected ("a whole
number of 1 or more"); the caller knows where the text came from and completes the sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf


def integer(low: int, high: int | None = None) -> Callable[[str], int]:
    """A parser of whole numbers from ``low`` to ``high``."""
    expected = f"a whole number from {low} to {high}" if high is not None else f"a whole number of {low} or more"

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(expected) from None
        if value < low or (high is not None and value > high):
            raise ValueError(expected)
        return value

    return parse


def positive(text: str) -> float:
    """A finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < inf:
        raise ValueError("a number above 0")
    return value


def choice(*allowed: str) -> Callable[[str], str]:
    """A parser that takes one of ``allowed``."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"one of {', '.join(allowed)}")
        return text

    return parse


def power_of_two(text: str) -> int:
    """A block size: a power of two from 1 to 256."""
    if not text.isdecimal() or int(text) not in {2**exponent for exponent in range(9)}:
        raise ValueError("a power of two from 1 to 256")
    return int(text)


def share(text: str) -> float:
    """A share of the pool, from 0 to below 1; ``5%`` is 0.05."""
    expected = "a share from 0 to below 1, such as 0.05 or 5%"
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise ValueError(expected) from None
    if not 0 <= value < 1:
        raise ValueError(expected)
    return value


_UNITS = {"": 1, "b": 1} | {
    prefix + suffix: base**power
    for power, prefix in enumerate("kmgt", start=1)
    for suffix, base in (("ib", 1024), ("b", 1000), ("", 1024))
}


def size(text: str) -> int:
    """Bytes: ``2GiB``, ``512MiB``, ``1.5GB`` (powers of 1000), ``64M`` (of 1024), or a plain number."""
    lowered = text.lower()
    number = lowered.rstrip("bikmgt ")
    try:
        value = float(number) * _UNITS[lowered[len(number) :].strip()]
    except (ValueError, KeyError):
        raise ValueError("a size such as 2GiB, 512MiB or 1.5GB") from None
    if not 0 <= value < 2**63:
        raise ValueError("a size from 0 to below 8 EiB")
    return int(value)


def truth(text: str) -> bool:
    """``true`` or ``false`` (1/0, yes/no, on/off)."""
    lowered = text.lower()
    if lowered in {"true", "1", "yes", "on"}:
        return True
    if lowered in {"false", "0", "no", "off"}:
        return False
    raise ValueError("true or false")


def some_text(text: str) -> str:
    """Any text but an empty one."""
    if not text:
        raise ValueError("some text")
    return text
