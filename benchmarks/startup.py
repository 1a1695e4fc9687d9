"""How long until something is there: the help, the first frame of `live`, the first token of a cold engine.

    python -m benchmarks.startup [--rounds N] [--chart FILE.svg]

The default model must be in the cache. The peer of the first token is what anybody would write with transformers:
load the same folder in a new process, generate one token. Everything is started anew in every round, in turn.
"""

from __future__ import annotations

import argparse
import os
import pty
import select
import signal
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

from benchmarks.chart import BUDGETS, budget_bar, draw
from benchmarks.cpu.quiet import QuietCheck
from kvtop.engine.control import BatchMessage, Inject
from kvtop.engine.events import Advanced
from kvtop.engine.requests import Request
from kvtop.models.resolve import resolve_model
from kvtop.settings import DEFAULT_MODEL, EngineSettings
from kvtop.sources.embedded import EmbeddedSource

PEER = """
import sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
model = AutoModelForCausalLM.from_pretrained(sys.argv[1])
model.generate(**tokenizer("Once upon a time", return_tensors="pt"), max_new_tokens=1, do_sample=False)
"""
TARGETS = {"help": (0.2, 0.1), "first frame": (0.8, 0.4), "first token": (6.0, 3.0)}


def main() -> int:
    parser = argparse.ArgumentParser(description="start-up times")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chart", type=Path)
    arguments = parser.parse_args()
    rounds = arguments.rounds
    folder = str(resolve_model(DEFAULT_MODEL))
    times: dict[str, list[float]] = {"help": [], "first frame": [], "first token": [], "transformers": []}
    with QuietCheck() as check:
        for _ in range(rounds):
            times["help"].append(_seconds_of([sys.executable, "-m", "kvtop", "--help"]))
            times["first frame"].append(_seconds_to_first_frame())
            times["first token"].append(_seconds_to_first_token())
            times["transformers"].append(_seconds_of([sys.executable, "-c", PEER, folder]))
    print(f"start-up, {rounds} rounds, medians; other processes used {check.others:.2f} cores")
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    for name, (at_least, aim) in TARGETS.items():
        print(f"  {name:12} {medians[name]:6.2f} s   at most {at_least:g} s, aim {aim:g} s")
    print(f"  {'transformers':12} {medians['transformers']:6.2f} s   load and generate one token in a new process")
    print(f"  first token, transformers ÷ kvtop: {medians['transformers'] / medians['first token']:.2f}×")
    if arguments.chart:
        bars = [
            budget_bar(name, medians[name], at_least, f"{medians[name]:.2f} s of {at_least:g} s")
            for name, (at_least, _) in TARGETS.items()
        ]
        setting = (
            f"{DEFAULT_MODEL}, torch {version('torch')}, transformers {version('transformers')}, model in the cache"
        )
        draw(arguments.chart, "Start-up", setting, bars, BUDGETS)
    return 0


def _seconds_of(command: list[str]) -> float:
    started = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - started


def _seconds_to_first_frame() -> float:
    """From exec to the pool panel's first bytes on a terminal of 120 × 36."""
    started = time.monotonic()
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor", COLUMNS="120", LINES="36")
        os.execv(sys.executable, [sys.executable, "-m", "kvtop", "live"])
    seen = b""
    while b"POOL" not in seen:
        if not select.select([terminal], [], [], 30)[0]:
            raise SystemExit("no frame within 30 s")
        seen += os.read(terminal, 65536)
    seconds = time.monotonic() - started
    os.kill(child, signal.SIGTERM)
    while select.select([terminal], [], [], 2)[0]:
        try:
            if not os.read(terminal, 65536):
                break
        except OSError:
            break
    os.waitpid(child, 0)
    return seconds


def _seconds_to_first_token() -> float:
    """From the start of the engine process to the first sampled token of a request that was sent at once."""
    started = time.monotonic()
    source = EmbeddedSource(EngineSettings(num_blocks=256))
    source.start()
    source.send(Inject(requests=[Request(id="first", prompt="Once upon a time", max_tokens=1)]))
    try:
        while time.monotonic() - started < 120:
            for message in source.poll():
                if isinstance(message, BatchMessage) and any(
                    isinstance(event, Advanced) and event.sampled[0] >= 0 for event in message.batch.events
                ):
                    return time.monotonic() - started
            time.sleep(0.005)
    finally:
        source.close()
    raise SystemExit("no token within 120 s")


if __name__ == "__main__":
    sys.exit(main())
