"""In a real tmux: text from outside, shown or pasted, changes neither clipboard nor title; the pane is left clean."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.terminal_program import HOSTILE

pytestmark = pytest.mark.tmux
PROGRAM = Path(__file__).with_name("terminal_program.py")
OURS = "what was copied before"


class Tmux:
    """A tmux server of its own with one pane, that does all a program in the pane may ask for."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "s"
        self("new-session", "-d", "-x", "120", "-y", "40", "sh")
        for option, value in (("set-clipboard", "on"), ("allow-rename", "on"), ("remain-on-exit", "on")):
            self("set-option", "-g", option, value)
        self("set-buffer", OURS)

    def __call__(self, *words: str) -> str:
        command = ["tmux", "-S", str(self._socket), "-f", "/dev/null", *words]
        environ = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environ, timeout=60).stdout

    def run(self, *command: str | Path) -> None:
        """Another program in the pane, in place of the one before."""
        self("respawn-pane", "-k", shlex.join(map(str, command)))

    def shown(self) -> str:
        return self("capture-pane", "-p")

    def wait_for(self, words: str) -> None:
        until = time.monotonic() + 60
        while words not in self.shown():
            assert time.monotonic() < until, f"{words!r} did not appear:\n{self.shown()}"
            time.sleep(0.1)

    def outside(self) -> tuple[str, ...]:
        """What a program in the pane can change besides what it draws."""
        return (
            self("list-buffers", "-F", "#{buffer_sample}"),
            self("display-message", "-p", "#{pane_title} #{window_name}"),
            self("show-options", "-g"),
            self("show-options", "-gw"),
        )


@pytest.fixture
def tmux() -> Iterator[Tmux]:
    assert shutil.which("tmux"), "there is no tmux: install the system's package tmux"
    with tempfile.TemporaryDirectory(prefix="kvtop-") as folder:  # a short path: it holds a socket
        opened = Tmux(Path(folder))
        yield opened
        opened("kill-server")


def test_hostile_text_shown_and_pasted_leaves_clipboard_title_and_options_alone(tmux: Tmux, tmp_path: Path) -> None:
    (tmp_path / "hostile").write_text(HOSTILE)
    before = tmux.outside()
    tmux.run("cat", tmp_path / "hostile")
    until = time.monotonic() + 60
    while tmux.outside()[:2] == before[:2]:  # as it is, it takes clipboard and title: this terminal obeys
        assert time.monotonic() < until
        time.sleep(0.05)

    tmux("delete-buffer")
    tmux("select-pane", "-T", "ours")
    tmux("rename-window", "ours")
    before = tmux.outside()
    assert OURS in before[0]
    tmux.run(sys.executable, PROGRAM, tmp_path / "pid", "hostile")
    tmux.wait_for("␛[2Jb")  # in the log: the request's name
    tmux("send-keys", "Tab", "j", "s", "b", "w")
    tmux.wait_for("esc back")
    tmux("send-keys", "Escape")
    time.sleep(0.5)  # an Escape and a key at once would be a key with Alt
    tmux("send-keys", "i")
    tmux.wait_for("inject requests")
    tmux("load-buffer", "-b", "evil", str(tmp_path / "hostile"))
    tmux("paste-buffer", "-d", "-p", "-b", "evil")
    tmux.wait_for("a␛[2Jb␛]2;title")
    assert "inject requests" in tmux.shown()
    tmux("send-keys", "C-q")
    until = time.monotonic() + 60
    while tmux("display-message", "-p", "#{pane_dead} #{pane_dead_status}").strip() != "1 0":
        assert time.monotonic() < until, tmux.shown()
        time.sleep(0.1)
    assert tmux.outside() == before
    assert tmux("display-message", "-p", "#{alternate_on} #{mouse_any_flag}").strip() == "0 0"
