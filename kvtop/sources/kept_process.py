"""A command that lives as long as this program wants it to, at the most: started under a keeper, its words kept.

The end of what it prints stays in memory: untrusted, never on the screen as it is. However this program ends, the
command ends with it, and with it all that it has started.
"""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

MAX_PRINTED_BYTES = 64 << 10
END_SECONDS = 12.0
"""How long the keeper may take: it asks the command first (see keeper.ASK_SECONDS)."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class KeptProcess:
    """One run of a command. ``folder`` is its own and goes with it.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self._printed = bytearray()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kvtop.sources.keeper", str(folder), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,  # Ctrl-C in the terminal is for the app
        )
        self._reading = threading.Thread(target=self._keep_printed, name="kept-output", daemon=True)
        self._reading.start()

    @property
    def pid(self) -> int:
        """The keeper's."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def how_it_ended(self) -> str:
        """In words, once it is not alive."""
        self._reading.join(1)
        status = self._process.wait()
        if status > 128 and (number := status - 128) in set(signal.Signals):
            return f"was ended by {signal.Signals(number).name}"
        return f"ended with exit status {status}"

    def lines(self, most: int) -> list[str]:
        """The last lines it printed, without colours; of a line that was drawn over, what was drawn last. Untrusted."""
        text = _COLOURS.sub("", bytes(self._printed).decode("utf-8", "replace"))
        drawn = (line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n"))
        return [line for line in drawn if line][-most:]

    def close(self) -> None:
        """End it; returns when nothing of it is left, or soon after END_SECONDS in any case."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()  # then the kernel tells the command
            self._process.wait()
        self._reading.join(1)

    def _keep_printed(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            while chunk := stream.read1(4096):  # type: ignore[attr-defined]
                self._printed += chunk
                del self._printed[:-MAX_PRINTED_BYTES]
