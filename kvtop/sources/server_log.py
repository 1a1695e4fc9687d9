"""A vLLM's log, read for the person who waits for it: what it is at now, and how far it got with that.

Everything here is untrusted text and comes out clean.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvtop.view.clean import clean_line

_PREFIX = re.compile(
    r"^(\([^)]*pid=\d+\)\s*)?((DEBUG|INFO|WARNING|ERROR|CRITICAL):?\s+([\d-]+ [\d:]+ )?(\[[^\]]*\] )?)?"
)
_SHARE = re.compile(r"(\d{1,3})% ")
_FAULT = re.compile(r"[\w.]*(Error|Exception): \S")
_LISTING = re.compile(r"Route: /|Available routes|non-default args|with config: model=")
"""Lines that fill a log and tell a waiting person nothing."""


def telling(lines: Sequence[str]) -> list[str]:
    """The messages of those lines that say what the server is at."""
    messages = (clean_line(_PREFIX.sub("", line, count=1).strip(), 160) for line in lines)
    return [words for words in messages if any(char.isalnum() for char in words) and not _LISTING.search(words)]


def first_fault(lines: Sequence[str]) -> str:
    """The first line that ends a traceback: what came of it follows. Empty: there is none."""
    return next((words for words in telling(lines) if _FAULT.match(words)), "")


def progress_of(words: str) -> tuple[float, float]:
    """How much is done, of how much, where a line draws a bar: ``Loading shards:  50% …`` → (50, 100); else (0, 0)."""
    found = _SHARE.search(words)
    return (min(100.0, float(found[1])), 100.0) if found else (0.0, 0.0)
