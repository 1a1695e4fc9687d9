"""Runs a command and sees to it that nothing of it outlives the program that wanted it.

Started as ``python -m kvtop.sources.keeper FOLDER COMMAND...``. Its standard input is a line to that program: when it
closes, however that program ended, the command is asked to end, and killed if it does not; then its folder is removed.
Whatever the command starts falls to this process when its parent dies (where the kernel offers that: Linux), so that
daemons are found too; should this process be killed, the command is told to end. Standard library and psutil only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time

import psutil

ASK_SECONDS = 5.0
"""How long the command may take to end when it is asked to."""
LEFT_SECONDS = 1.0
"""The same for what the command leaves behind."""
LOOK_SECONDS = 0.1
_SET_CHILD_SUBREAPER = 36
_SET_DEATH_SIGNAL = 1


def main(arguments: list[str]) -> int:
    """Run to the end of the command, or of the line; the command's exit status, as a shell gives it."""
    folder, *command = arguments
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda asked_by, frame: asked.append(asked_by))  # the same as the end of the line
    _control_process(_SET_CHILD_SUBREAPER, 1)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0, preexec_fn=_end_with_parent)
    status = None
    while status is None and not asked and _line_is_open():
        status = _reap(child.pid)
    if status is None:
        child.terminate()
        patience_s = time.monotonic() + ASK_SECONDS
        while status is None and time.monotonic() < patience_s:
            time.sleep(LOOK_SECONDS / 2)
            status = _reap(child.pid)
    _end_all()
    shutil.rmtree(folder, ignore_errors=True)
    return 128 + signal.SIGKILL if status is None else 128 - status if status < 0 else status


def _line_is_open() -> bool:
    """Whether somebody still wants the command; waits a moment."""
    readable, _, _ = select.select([sys.stdin], [], [], LOOK_SECONDS)
    return not readable or os.read(sys.stdin.fileno(), 1) != b""


def _reap(pid: int) -> int | None:
    """Bury the dead, ours and those that fell to us; the exit code of ``pid`` if it is among them, else None."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while (dead := os.waitpid(-1, os.WNOHANG))[0]:
            if dead[0] == pid:
                found = os.waitstatus_to_exitcode(dead[1])
    return found


def _end_all() -> None:
    """What is left of the command and of all it started is asked to end, and killed a moment later."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    patience_s = time.monotonic() + LEFT_SECONDS
    while left := psutil.Process().children(recursive=True):
        if time.monotonic() > patience_s:
            for process in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        time.sleep(LOOK_SECONDS / 2)
        _reap(0)


def _end_with_parent() -> None:
    """In the new process, before it becomes the command."""
    _control_process(_SET_DEATH_SIGNAL, signal.SIGTERM)


def _control_process(option: int, value: int) -> None:
    """prctl(2), where there is one."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
