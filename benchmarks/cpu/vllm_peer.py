"""Our end of vllm_worker.py."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from benchmarks.cpu.contestants import Job, Outcome

LENGTH = 1024
"""max_model_len: the longest job of the fixtures is shorter."""


class VllmPeer:
    """A vLLM that is started once; ``with VllmPeer(python, folder) as peer: peer.run(jobs)``."""

    def __init__(self, python: str, folder: Path) -> None:
        """``python`` is the interpreter of an environment in which vLLM's CPU build is installed."""
        worker = Path(__file__).with_name("vllm_worker.py")
        self._process = subprocess.Popen(
            [python, str(worker), str(folder), str(LENGTH)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.version = str(self._answer()["ready"])

    def __enter__(self) -> VllmPeer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
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
