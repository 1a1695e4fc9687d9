"""Where tables go: stdout, cut to the terminal's width where there is one and whole where it is a pipe or a file."""

from __future__ import annotations

import os
import sys

from rich.console import Console

UNCUT_WIDTH = 10_000
"""Columns where there is no terminal: a table takes what it needs of them."""


def table_console() -> Console:
    """A console on stdout. ``COLUMNS`` sets the width in any case."""
    is_cut = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(highlight=False, width=None if is_cut else UNCUT_WIDTH)
