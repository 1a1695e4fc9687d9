"""The link to the terminal, measured: how much waits to be written, and how fast it goes.

Textual hands its output to a writer thread and sees only how many writes are queued, not the one that is stuck. Here
the thread writes in small pieces and counts them, so that frames can be kept small and rare on a slow link, and a
key's answer never stands behind a long queue.
"""

from __future__ import annotations

import os
import signal
import time
from typing import IO, Any

from textual.drivers import linux_driver
from textual.drivers.linux_driver import LinuxDriver

from kvtop.app.paste import PasteParser

PIECE = 2_048
"""Characters written at a time."""
SLOW_BYTES_PER_SECOND = 2_000_000
"""A link quicker than this needs no care."""
FRAME_SECONDS = 0.04
"""How long a frame may take on a slow link."""
BLOCKED_SECONDS = 0.002
"""A piece that takes longer found no room: the buffers between here and the terminal are full."""
REGAIN = 1.05
"""What a link is taken to gain with every write that found room at once."""


class Link:
    """Stands in for the terminal's file; the writer thread is the only one that writes."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self.submitted = 0
        """Characters handed to the writer thread."""
        self.written = 0
        self.bytes_per_second: float | None = None
        """Over the last writes that had to wait; None: none had to yet."""

    @property
    def waiting(self) -> int:
        """Characters that are not on the way yet."""
        return self.submitted - self.written

    @property
    def frame_bytes(self) -> int | None:
        """How large a frame may be; None: as large as it likes."""
        speed = self.bytes_per_second
        return None if speed is None or speed > SLOW_BYTES_PER_SECOND else max(4_000, int(speed * FRAME_SECONDS))

    def write(self, text: str) -> int:
        """Until the buffers are full writing costs nothing and tells nothing; from there on it goes as fast as the link
        does."""
        full_since_s: float | None = None
        full_at = 0
        for start in range(0, len(text), PIECE):
            piece = text[start : start + PIECE]
            began_s = time.monotonic()
            self._file.write(piece)
            self._file.flush()
            self.written += len(piece)
            if full_since_s is None and time.monotonic() - began_s > BLOCKED_SECONDS:
                full_since_s, full_at = began_s, start
        before = self.bytes_per_second
        if full_since_s is not None:
            speed = (len(text) - full_at) / (time.monotonic() - full_since_s)
            self.bytes_per_second = speed if before is None else 0.7 * before + 0.3 * speed
        elif before is not None:
            self.bytes_per_second = REGAIN * before
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class MeasuredDriver(LinuxDriver):
    """Textual's driver for Linux and macOS, with its output going through a Link."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        assert self._file is not None, "there is no standard error to draw on"
        self.link = Link(self._file)
        self._file = self.link  # type: ignore[assignment]

    def _sigtstp_application(self, *_: object) -> None:
        """Stop all that the shell started as one job (``make live`` has make in it, too): it waits for all of it to
        stop, and Textual would stop this process alone."""
        if self._auto_restart:
            self.suspend_application_mode()
            self._must_signal_resume = True
        os.killpg(os.getpgrp(), signal.SIGSTOP)

    def _sigcont_application(self, *_: object) -> None:
        """The process was let go on. Textual starts its threads at once, also where those from before still run: each
        reads some of the keys, and the process never ends. A handler can come in the midst of anything, so the loop
        sees to it."""
        self._loop.call_soon_threadsafe(self._take_terminal_back)

    def _take_terminal_back(self) -> None:
        """Whoever stopped the process may have changed the terminal: set it up from the start."""
        if self._key_thread is not None and self._key_thread.is_alive():  # stopped without having been asked
            self.suspend_application_mode()
            self._must_signal_resume = True
        if self._must_signal_resume:  # else it has left for good
            self.resume_application_mode()
            self._app.refresh(layout=True)

    def run_input_thread(self) -> None:
        vars(linux_driver)["XTermParser"] = PasteParser  # Textual takes its parser from there
        super().run_input_thread()

    def write(self, data: str) -> None:
        self.link.submitted += len(data)
        super().write(data)
