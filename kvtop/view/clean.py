"""The one door for untrusted text: prompts, model output, request ids, model names, remote labels, error texts.

Whatever comes out is safe to hand to a terminal and lines up in columns: no escape or control character, no bidi
override, no zero-width or joining character, no lone surrogate, bounded length. What would have acted is shown as a
sign (ESC as ␛, line feed as ↵) so that it can be seen and not felt. It works character by character, so a sequence
that arrives in two pieces is as harmless as one. It does not escape markup: widgets take text as text, never as markup.
"""

from __future__ import annotations

import functools
import unicodedata

from rich.cells import cell_len, get_character_cell_size

REPLACEMENT = "\ufffd"
MAX_MARKS = 3
"""Combining marks kept on one base character; more would paint over neighbouring lines."""


@functools.lru_cache(maxsize=8192)
def _safe(char: str) -> str:
    """What stands for one character: itself, a sign, or nothing."""
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)  # control pictures: ␀ … ␛ … ␟
    if code == 0x7F:
        return "␡"
    if 0x1F1E6 <= code <= 0x1F1FF:  # regional indicators: terminals disagree about the width of flags
        return chr(ord("A") + code - 0x1F1E6)
    if 0x1F3FB <= code <= 0x1F3FF or 0xFE00 <= code <= 0xFE0F or code == 0x20E3 or 0xE0000 <= code <= 0xE0FFF:
        return ""  # skin tones, variation selectors, keycaps, tags: change the width of what they follow
    category = unicodedata.category(char)
    if category == "Cf":  # bidi controls, zero-width space and joiners, soft hyphen, byte order mark
        return ""
    if category in ("Zl", "Zp"):
        return "↵"
    if category == "Zs":
        return " "
    if category in ("Cc", "Cs", "Co", "Cn"):
        return REPLACEMENT
    if category in ("Mn", "Mc"):
        return char
    return char if get_character_cell_size(char) else ""


def _clean(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    kept: list[str] = []
    marks = MAX_MARKS  # a mark with nothing to stand on is dropped
    for char in text:
        safe = _safe(char)
        if not safe:
            continue
        if get_character_cell_size(safe) == 0:
            marks += 1
            if marks > MAX_MARKS:
                continue
        else:
            marks = 0
        kept.append(safe)
    return "".join(kept)


def clean_line(text: str, limit: int = 200) -> str:
    """``text`` for one line: line breaks and tabs become signs; at most ``limit`` characters, cut with an ellipsis."""
    shown = _clean(text[: 4 * limit].replace("\r\n", "\n")).replace("␊", "↵").replace("␉", " ")
    if len(shown) > limit or len(text) > 4 * limit:
        shown = shown[: limit - 1] + "…"
    return shown


def clean_text(text: str, limit: int = 20_000) -> str:
    """``text`` for a panel of several lines: line feeds stay, a tab becomes 4 spaces; the last ``limit`` characters."""
    lines = text[-limit:].replace("\r\n", "\n").replace("\t", "    ").split("\n")
    return "\n".join(_clean(line) for line in lines)[-limit:]


def width(text: str) -> int:
    """Terminal cells that ``text``, which came through here, takes in one line."""
    return cell_len(text)


def fit(text: str, cells: int) -> str:
    """``text``, which came through here, padded with spaces or cut with an ellipsis to exactly ``cells`` cells."""
    taken = width(text)
    if taken <= cells:
        return text + " " * (cells - taken)
    if cells < 1:
        return ""
    kept: list[str] = []
    left = cells - 1
    for char in text:
        left -= get_character_cell_size(char)
        if left < 0:
            left += get_character_cell_size(char)
            break
        kept.append(char)
    return "".join(kept) + "…" + " " * left
