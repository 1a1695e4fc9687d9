"""On a real terminal: it starts, and however it ends the terminal is as it was and the engine is gone."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("terminal_program.py")
MODES = {
    "1049": "alternate screen",
    "1000": "mouse",
    "1003": "mouse movement",
    "1006": "mouse",
    "2004": "paste",
    "1004": "focus",
}


class Terminal:
    """A pseudo-terminal with the program on it, or another ``command``."""

    def __init__(self, pid_file: Path, *arguments: str, command: Sequence[str] = ()) -> None:
        self.master, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 110, 0, 0))
        self.before = termios.tcgetattr(theirs)
        self._theirs = theirs
        self._pid_file = pid_file
        self.output = ""
        self.process = subprocess.Popen(
            command or [sys.executable, str(PROGRAM), str(pid_file), *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
        )

    @property
    def engine_pid(self) -> int:
        return int(self._pid_file.read_text())

    def read(self, seconds: float) -> None:
        if select.select([self.master], [], [], seconds)[0]:
            with contextlib.suppress(OSError):
                self.output += os.read(self.master, 1 << 16).decode("utf-8", "replace")

    def wait_for(self, words: str, seconds: float = 20) -> None:
        until = time.monotonic() + seconds
        while words not in self.output:
            assert time.monotonic() < until, f"{words!r} did not appear in {self.output[-500:]!r}"
            self.read(0.1)

    def wait(self, seconds: float = 10) -> int:
        until = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < until, "the program does not end"
            self.read(0.05)
        self.read(0.2)
        return self.process.returncode

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def modes_left_on(self) -> list[str]:
        """Terminal modes that were set and not taken back."""
        return [
            what
            for mode, what in MODES.items()
            if self.output.rfind(f"\x1b[?{mode}h") > self.output.rfind(f"\x1b[?{mode}l")
        ]

    def restored(self) -> bool:
        return not self.modes_left_on() and termios.tcgetattr(self._theirs) == self.before

    def close(self) -> None:
        for descriptor in (self.master, self._theirs):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def gone(pid: int, seconds: float = 5) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] == "Z":
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(tmp_path / "pid")
    yield opened
    opened.close()


def test_q_leaves_at_once_with_the_terminal_as_it_was_and_no_engine(terminal: Terminal) -> None:
    terminal.wait_for("traffic yet")
    started = time.monotonic()
    terminal.press("q")
    assert terminal.wait() == 0
    assert time.monotonic() - started < 2
    assert terminal.restored() and gone(terminal.engine_pid)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_it_as_q_does_and_the_status_says_which(terminal: Terminal, number: signal.Signals) -> None:
    terminal.wait_for("traffic yet")
    terminal.process.send_signal(number)
    assert terminal.wait() == 128 + number
    assert terminal.restored() and gone(terminal.engine_pid)


def test_stopped_and_let_go_on_it_draws_anew_hears_every_key_and_leaves_nothing(terminal: Terminal) -> None:
    """As a debugger does it, a job control, or tmux, which lets a stopped program go on at once."""
    terminal.wait_for("traffic yet")
    threads = len(os.listdir(f"/proc/{terminal.process.pid}/task"))
    for _ in range(3):
        terminal.output = ""
        terminal.process.send_signal(signal.SIGSTOP)
        terminal.process.send_signal(signal.SIGCONT)
        terminal.wait_for("traffic yet")
    assert len(os.listdir(f"/proc/{terminal.process.pid}/task")) == threads
    terminal.press("?")
    terminal.wait_for("operating-system analogy")
    terminal.press("qq")
    assert terminal.wait() == 0
    assert terminal.restored() and gone(terminal.engine_pid)


def test_suspended_it_gives_the_terminal_back_and_takes_it_again(terminal: Terminal) -> None:
    terminal.wait_for("traffic yet")
    terminal.press("\x1a")
    until = time.monotonic() + 10
    while not (_state(terminal.process.pid) == "T" and terminal.restored()):
        assert time.monotonic() < until
        terminal.read(0.05)
    terminal.output = ""
    terminal.process.send_signal(signal.SIGCONT)
    terminal.wait_for("traffic yet")
    terminal.press("q")
    assert terminal.wait() == 0
    assert terminal.restored() and gone(terminal.engine_pid)


def test_suspended_below_another_program_it_stops_with_it_so_that_the_shell_goes_on(tmp_path: Path) -> None:
    """As under make: a shell waits until all processes of the job have stopped."""
    terminal = Terminal(tmp_path / "pid", command=["bash", "--norc", "-i"])
    try:
        terminal.press(f"sh -c '{sys.executable} {PROGRAM} {tmp_path / 'pid'}; true'\n")
        terminal.wait_for("traffic yet")
        terminal.output = ""
        terminal.press("\x1a")
        terminal.wait_for("Stopped")
        terminal.press("fg\n")
        terminal.wait_for("traffic yet")
        terminal.press("q")
        assert gone(terminal.engine_pid, 10)
    finally:
        terminal.close()


def _state(pid: int) -> str:
    """One letter of the kernel: T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def test_a_closed_terminal_ends_it_and_the_engine(terminal: Terminal) -> None:
    terminal.wait_for("traffic yet")
    os.close(terminal.master)
    os.close(terminal._theirs)
    assert terminal.process.wait(10) != 0
    assert gone(terminal.engine_pid)


def test_a_fault_of_the_app_restores_the_terminal_and_is_told(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "pid", "fail")
    try:
        terminal.wait_for("a fault of the app")
        assert terminal.wait() == 1
        assert terminal.restored() and gone(terminal.engine_pid)
    finally:
        terminal.close()


def test_a_killed_engine_leaves_the_screen_with_what_happened(terminal: Terminal) -> None:
    terminal.wait_for("traffic yet")
    os.kill(terminal.engine_pid, signal.SIGKILL)
    terminal.wait_for("SIGKILL")
    terminal.press("r")
    terminal.output = ""
    terminal.wait_for("traffic yet")
    terminal.press("q")
    assert terminal.wait() == 0 and terminal.restored()


def test_nothing_in_a_request_reaches_the_terminal_as_a_command(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "pid", "hostile")
    try:
        terminal.wait_for("␛[2Jb")
        for key in ("\t", "j", "s", "b"):
            terminal.press(key)
        terminal.wait_for("block table of")
        terminal.press("w")
        terminal.read(0.5)
        for acting in ("\x1b[2J", "\x1b]2;", "\x1b]52;", "\x9b", "\x00", "\u202e", "\u200b"):
            assert acting not in terminal.output, repr(acting)
        terminal.press("\x11")
        assert terminal.wait() == 0 and terminal.restored()
    finally:
        terminal.close()


def test_keys_typed_before_the_first_frame_are_not_lost(terminal: Terminal) -> None:
    terminal.press("q")
    assert terminal.wait(20) == 0
    assert gone(terminal.engine_pid)
