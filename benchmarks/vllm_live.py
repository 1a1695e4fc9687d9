"""``kvtop live --engine vllm`` on a real vLLM, without its screen: started, asked, preempted, paused, stepped, ended.

    python -m benchmarks.vllm_live --python VENV/bin/python --model FOLDER [--blocks 40]

The environment of --python has a vLLM of a known version and kvtop-live. More requests are sent than the pool holds;
when one is preempted the server is paused, stepped a step at a time, and let go; then everything is ended. Ends with 1
if a request lost a token or its text, a step was not one step, or a process is left.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from kvtop.engine.control import AnyCommand, BatchMessage, Inject, Pause, Reply, Resume, Status, Step
from kvtop.engine.requests import Request
from kvtop.sources.vllm import VllmSource
from kvtop.sources.vllm_command import VllmPlan, check_python
from kvtop.view.pool_view import PoolView

START_SECONDS = 600
REQUESTS = 10
PROMPT = "You are pupil {}. Explain in plain words, for somebody who has never heard of it, why systems page memory."
NEW_TOKENS = 200
STEPS = 5


@dataclass
class Found:
    """What one run showed."""

    ready_s: float = 0.0
    first_words: str = ""
    """Of the log, while it loaded."""
    preemptions: int = 0
    stood: bool = False
    stepped: list[int] = field(default_factory=list)
    """Steps that each Step command brought."""
    step_s: list[float] = field(default_factory=list)
    """From each Step command until its step was shown."""
    texts: int = 0
    """Tokens gained in these steps whose text was shown with them."""
    gained: int = 0
    """Tokens gained in these steps."""
    processes: int = 0
    ended_s: float = 0.0
    faults: list[str] = field(default_factory=list)


class Run:
    """One source, polled as the app does it."""

    def __init__(self, plan: VllmPlan) -> None:
        self.source = VllmSource(plan)
        self.view = PoolView()
        self.found = Found()
        self._replies: list[Reply] = []
        self.source.start()

    def poll(self) -> None:
        for message in self.source.poll():
            if isinstance(message, BatchMessage):
                self.view.apply(message.batch)
            elif isinstance(message, Reply):
                self._replies.append(message)
            elif isinstance(message, Status) and message.state == "failed":
                raise RuntimeError(f"{message.detail}\n{message.traceback}")
            elif isinstance(message, Status) and message.state == "loading":
                self.found.first_words = message.detail
        time.sleep(0.005)

    def wait(self, holds: Callable[[], object], timeout_s: float) -> None:
        end = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > end:
                raise RuntimeError(f"it did not come about within {timeout_s:.0f} s, at step {self.view.step}")
            self.poll()

    def rest(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.poll()

    def command(self, command: AnyCommand) -> None:
        """Send it and wait for its answer."""
        self._replies.clear()
        self.source.send(command)
        self.wait(lambda: self._replies, 30)
        if self._replies[0].error:
            raise RuntimeError(self._replies[0].error)

    def prove(self) -> None:
        found, view = self.found, self.view
        began_s = time.monotonic()
        self.wait(lambda: self.view.info is not None, START_SECONDS)
        found.ready_s = time.monotonic() - began_s
        requests = [
            Request(id=f"req-{i}", prompt=PROMPT.format(i), chat=True, max_tokens=NEW_TOKENS, ignore_eos=True)
            for i in range(REQUESTS)
        ]
        self.command(Inject(requests=requests))
        self.wait(lambda: view.counters.preemptions, 600)
        self.command(Pause())
        self.wait(lambda: view.paused, 30)
        self.rest(1.0)  # a step under way ends
        step = view.step
        self.rest(2.0)
        found.stood = view.step == step
        for _ in range(STEPS):
            self._step_once()
        self.command(Resume())
        self.wait(lambda: len(view.ended) == REQUESTS, 900)
        found.preemptions = view.counters.preemptions
        for request in view.ended:
            if request.generated != NEW_TOKENS or not request.text:
                found.faults.append(f"{request.name} ended with {request.generated} tokens, text {request.text!r}")
        if view.blocks.active:
            found.faults.append(f"{view.blocks.active} blocks are held after the last request")

    def _step_once(self) -> None:
        view, found = self.view, self.found
        running = view.with_status("running")
        before = {row.seq: (row.generated, len(row.raw_text)) for row in running}
        step, began_s = view.step, time.monotonic()
        self.command(Step(steps=1))
        self.wait(lambda: view.step > step, 60)
        found.step_s.append(time.monotonic() - began_s)
        self.rest(2.0)
        found.stepped.append(view.step - step)
        for row in running:
            generated, characters = before[row.seq]
            found.gained += row.generated - generated
            found.texts += len(row.raw_text) > characters

    def end(self) -> None:
        """Quit; what is still there afterwards is a fault."""
        family = [*psutil.Process(self.source.pid).children(recursive=True), psutil.Process(self.source.pid)]
        self.found.processes = len(family)
        began_s = time.monotonic()
        self.source.close()
        self.found.ended_s = time.monotonic() - began_s
        left = [process for process in family if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
        self.found.faults += [f"process {process.pid} is left" for process in left]


def prove(python: str, model: Path, blocks: int) -> Found:
    """One run; its faults are told, not raised."""
    check_python(python)
    os.environ |= {"VLLM_CPU_OMP_THREADS_BIND": "0-1", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    flags = ("--dtype", "bfloat16", "--block-size", "32", "--num-gpu-blocks-override", str(blocks + 1))
    plan = VllmPlan(
        python=python, model=str(model), ours=flags, theirs=("--enforce-eager", "--max-model-len", "1024"), control=True
    )
    run = Run(plan)
    try:
        run.prove()
    finally:
        run.end()
    found = run.found
    if not found.stood:
        found.faults.append("it went on while it was paused")
    if found.stepped != [1] * STEPS:
        found.faults.append(f"one step was {found.stepped}")
    if not found.preemptions:
        found.faults.append("nothing was preempted")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--blocks", type=int, default=40)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    found = prove(args.python, args.model, args.blocks)
    print(f"ready        after {found.ready_s:.0f} s")
    print(f"preemptions  {found.preemptions}")
    shown_ms = 1000 * statistics.median(found.step_s)
    print(
        f"stepped      {found.stepped}, shown {shown_ms:.0f} ms after the key (median); paused it stood: {found.stood}"
    )
    print(f"text         came with its step for {found.texts} of {found.gained} tokens")
    print(f"ended        {found.processes} processes within {found.ended_s:.1f} s")
    for fault in found.faults:
        print(f"FAULT        {fault}")
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
