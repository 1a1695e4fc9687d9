"""What the terminal shows: how many colours, which signs, how many cells. Asked as the dashboard asks, without it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping

from rich.console import Console

from kvtop.app.terminal import detect
from kvtop.doctor.finding import Finding
from kvtop.view.colours import Depth

LEAST_SIZE = os.terminal_size((40, 12))
FULL_SIZE = os.terminal_size((120, 36))
"""From here on every panel is shown."""

_WORDS = {
    Depth.TRUE: "16.7 million colours",
    Depth.PALETTE: "256 colours",
    Depth.ANSI: "16 colours",
    Depth.NONE: "no colours, owners are told apart by their glyphs",
}


def terminal_size() -> os.terminal_size | None:
    """Cells of the terminal this runs on; None where there is none."""
    if not any(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        return None
    return shutil.get_terminal_size()


def size_finding(size: os.terminal_size | None) -> Finding:
    if size is None:
        return Finding(
            "terminal size", "warn", "no terminal here", "kvtop live needs one; kvtop live --once and kvtop run do not"
        )
    shown = f"{size.columns}x{size.lines}"
    figures = {"columns": float(size.columns), "lines": float(size.lines)}
    if size.columns < LEAST_SIZE.columns or size.lines < LEAST_SIZE.lines:
        least = f"{LEAST_SIZE.columns}x{LEAST_SIZE.lines}"
        return Finding("terminal size", "warn", shown, f"make it {least} at least: smaller ones lose rows", figures)
    whole = size.columns >= FULL_SIZE.columns and size.lines >= FULL_SIZE.lines
    more = "" if whole else f", some panels are left out below {FULL_SIZE.columns}x{FULL_SIZE.lines}"
    return Finding("terminal size", "ok", shown + more, figures=figures)


def colours_finding(environ: Mapping[str, str]) -> Finding:
    """``environ`` holds TERM, COLORTERM and NO_COLOR."""
    term = environ.get("TERM", "")
    console = Console(force_terminal=True, legacy_windows=False, _environ=environ)
    terminal = detect(environ, console.color_system)
    value = f"{_WORDS[terminal.depth]}{'' if terminal.fine_marks else ', plain signs only'} (TERM={term})"
    if terminal.depth is Depth.NONE and environ.get("NO_COLOR") is None:
        return Finding("terminal colours", "warn", value, "if it has colours, say so: TERM=xterm-256color")
    return Finding("terminal colours", "ok", value, figures={"colours": float(terminal.depth)})
