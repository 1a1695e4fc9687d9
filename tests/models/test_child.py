"""A child process reports how far it is, says how it ended, and never outlives its parent."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kvtop.models.child import run_child
from kvtop.models.progress import no_report


def test_a_child_runs_a_module_as_a_program_and_its_words_come_back(tmp_path: Path) -> None:
    ended = run_child(
        "json.tool", [str(tmp_path / "none")], folder=tmp_path, total_bytes=0, detail="", report=no_report
    )
    assert ended.code != 0
    assert "none" in ended.stderr + ended.stdout
    (tmp_path / "some").write_text("[1]")
    ended = run_child(
        "json.tool", [str(tmp_path / "some")], folder=tmp_path, total_bytes=0, detail="", report=no_report
    )
    assert (ended.code, ended.stdout.split()) == (0, ["[", "1", "]"])


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_child_ends_with_its_parent_however_that_ends(how: signal.Signals, tmp_path: Path) -> None:
    written = tmp_path / "pid"
    (tmp_path / "sleeper.py").write_text(
        f"import os, pathlib, time\npathlib.Path({str(written)!r}).write_text(str(os.getpid()))\ntime.sleep(60)\n"
    )
    code = (
        "import pathlib, sys\n"
        "from kvtop.models.child import run_child\n"
        "from kvtop.models.progress import no_report\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "run_child('sleeper', [], folder=folder, total_bytes=0, detail='', report=no_report)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        stderr=subprocess.DEVNULL,
    )

    def wait_until(what: Callable[[], object]) -> None:
        deadline = time.monotonic() + 10
        while not what() and time.monotonic() < deadline:
            time.sleep(0.02)

    wait_until(lambda: written.exists() and written.read_text())
    child = int(written.read_text())
    assert alive(child)
    parent.send_signal(how)
    parent.wait(10)
    wait_until(lambda: not alive(child))
    assert not alive(child)
