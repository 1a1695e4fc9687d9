"""Our end of vllm_worker.py."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

from benchmarks.cpu.contestants import Job, Outcome

LENGTH = 1024
"""max_model_len: the longest job of the fixtures is shorter."""


class VllmPeer:
    """A vLLM that is started once; ``with VllmPeer(python, folder, "eager") as peer: peer.run(jobs)``."""

    def __init__(self, python: str, folder: Path, mode: str) -> None:
        """``python`` is the interpreter of an environment in which vLLM's CPU build is installed; ``mode`` is "eager"
        or "compiled"."""
        worker = Path(__file__).with_name("vllm_worker.py")
        self._process = subprocess.Popen(
            [python, str(worker), str(folder), str(LENGTH), mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self.version = str(self._answer()["ready"])

    def __enter__(self) -> VllmPeer:
        return self

    def __exit__(self, *_: object) -> None:
        """Its worker processes would outlive a kill of the first one: the whole group ends."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def run(self, jobs: list[Job]) -> Outcome:
        """All jobs at once, as vLLM schedules them."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([[job.prompt, job.count] for job in jobs]) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        return Outcome(answer["seconds"], answer["answers"], [])

    def _answer(self) -> dict:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the vLLM process ended with code {self._process.wait()}")
        answer: dict = json.loads(line)
        return answer
