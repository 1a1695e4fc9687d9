"""An engine process over the fake runner, started as ``fake_engine.py HOW FD``: every rule of the pool is checked after
every step, blocks that become free are poisoned, so that an answer is right or visibly wrong.

HOW: ``right``, or ``dies`` (kills itself in its twentieth step).
"""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from kvtop.engine.check import check
from kvtop.engine.config import SchedulerConfig
from kvtop.engine.engine import Engine
from kvtop.engine.plan import StepPlan, StepResult
from kvtop.engine.process import Progress, serve
from kvtop.settings import EngineSettings
from tests.engine.fake_runner import FakeRunner
from tests.engine.harness import NumberCodec, fake_info

STEP_SECONDS = 0.002
VOCABULARY = 1000


class PacedRunner(FakeRunner):
    """Takes its time, so that requests meet."""

    def __init__(self, how: str, num_blocks: int, block_size: int, swap_blocks: int) -> None:
        super().__init__(num_blocks, block_size, swap_blocks)
        self._steps_left = 20 if how == "dies" else -1

    def run(self, plan: StepPlan) -> StepResult:
        time.sleep(STEP_SECONDS)
        self._steps_left -= 1
        if self._steps_left == 0:
            os.kill(os.getpid(), 9)
        return super().run(plan)


def build(how: str, settings: EngineSettings, report: Progress) -> Engine:
    config = SchedulerConfig(
        num_blocks=settings.num_blocks or 100,
        block_size=settings.block_size,
        max_num_seqs=settings.max_num_seqs,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        max_model_len=settings.max_model_len or 400,
        preempt=settings.preempt,
        swap_blocks=settings.swap_memory,
    )
    runner = PacedRunner(how, config.num_blocks, config.block_size, config.swap_blocks)
    return Engine(fake_info(config), config, runner, NumberCodec(), vocab_size=VOCABULARY, inspect=check)


if __name__ == "__main__":
    how, descriptor = sys.argv[1:]
    os._exit(serve(socket.socket(fileno=int(descriptor)), lambda settings, report: build(how, settings, report)))
