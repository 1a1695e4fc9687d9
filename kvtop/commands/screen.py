"""Whether there is anything to draw on: a terminal, or a page that ``kvtop web`` serves."""

from __future__ import annotations

import os
import sys

from kvtop.failure import Failure


def has_screen() -> bool:
    on_a_page = "TEXTUAL_DRIVER" in os.environ
    return on_a_page or all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))  # it draws on stderr


def require_screen(what: str, otherwise: str = "--once prints one frame without") -> None:
    """Raise Failure when there is none; ``what`` begins the sentence, ``otherwise`` ends it with a way out."""
    if not has_screen():
        raise Failure(f"{what} draws on a terminal, and there is none here; {otherwise}")
