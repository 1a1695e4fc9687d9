"""An engine process that misbehaves, started as ``odd_engine.py HOW FD``: what its watcher must bear is in HOW."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from kvtop.engine.cost import CARDS, DEFAULT_CARD
from kvtop.engine.engine import Engine
from kvtop.engine.process import Progress, serve
from kvtop.engine.simulator import build_simulated_engine
from kvtop.failure import Failure
from kvtop.settings import EngineSettings

STEP_SECONDS = 0.001


def build(how: str, settings: EngineSettings, report: Progress) -> Engine:
    if how == "no-model":
        raise Failure("there is no such model; pull one")
    if how == "bug":
        raise ZeroDivisionError("a fault in loading")
    if how == "chatty":
        for _ in range(3_000):
            print("a library says something \x1b[2J", "x" * 60)
        report("reading", 1, 2)
    spend = {"hangs": lambda _: time.sleep(3_600), "dies": lambda _: os.kill(os.getpid(), 9)}.get(
        how, lambda _: time.sleep(STEP_SECONDS)
    )
    if how == "fails":
        spend = fail
    return build_simulated_engine(settings, CARDS[DEFAULT_CARD], spend)


def fail(seconds: float) -> None:
    raise RuntimeError(f"a fault in a step of {seconds:.3f} s")


if __name__ == "__main__":
    how, descriptor = sys.argv[1:]
    os._exit(serve(socket.socket(fileno=int(descriptor)), lambda settings, report: build(how, settings, report)))
