"""Pastes stay whole: whatever is between the two marks of a bracketed paste is text, an ESC too.

Textual's parser looks for escape sequences inside a paste and sends what it doesn't know as keys, so a pasted ESC
would close a form and the rest act as hotkeys. Here an ESC inside a paste becomes its sign before it is parsed, and a
pasted text becomes one line that a field can hold, with a sign for each line break.
"""

from __future__ import annotations

from collections.abc import Iterable

from textual import events
from textual._xterm_parser import XTermParser
from textual.message import Message
from textual.widgets import Input

from kvtop.view.clean import clean_line

START, END = "\x1b[200~", "\x1b[201~"
BREAK = "↵"
"""Stands for a line break in a field."""
LONGEST = 100_000
"""Characters of a paste that are taken."""


class Pastes:
    """Takes what a terminal sends, piece by piece, and gives it back without an ESC inside pastes."""

    def __init__(self) -> None:
        self._inside = False
        self._last = ""
        """The end of what came before: half a mark may be in it. Inside a paste it was not given back yet."""

    def whole(self, data: str) -> str:
        given = ""
        while data:
            joined = self._last + data
            if not self._inside:
                at = joined.find(START)
                if at < 0:
                    self._last = joined[1 - len(START) :]
                    return given + data
                used = at + len(START) - len(self._last)
                given, data, self._last, self._inside = given + data[:used], data[used:], "", True
                continue
            at = joined.find(END)
            if at < 0:
                kept = next((n for n in range(len(END) - 1, 0, -1) if joined.endswith(END[:n])), 0)
                self._last = joined[len(joined) - kept :]
                return given + _no_escape(joined[: len(joined) - kept])
            given += _no_escape(joined[:at]) + END
            data, self._last, self._inside = joined[at + len(END) :], "", False
        return given


def _no_escape(text: str) -> str:
    return text.replace("\x1b", "␛")


class PasteParser(XTermParser):
    """Textual's parser behind ``Pastes``."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._pastes = Pastes()

    def feed(self, data: str) -> Iterable[Message]:
        whole = self._pastes.whole(data)
        return super().feed(whole) if whole or not data else ()


class PasteInput(Input):
    """A field that takes all of a paste."""

    def on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        self.replace(as_line(event.text), *self.selection)


def as_line(text: str) -> str:
    """A pasted text as one line, harmless, with ``BREAK`` for each line break."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return clean_line(lines, LONGEST)


def as_text(line: str) -> str:
    """What a field's line stands for."""
    return line.replace(BREAK, "\n")
