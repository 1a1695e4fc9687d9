"""An engine without a model: the real scheduler and pool, words drawn by hashing, step times from a cost model.

For `kvtop live --sim`, the policy lab and tests: whatever the screen shows of blocks, queues and preemptions is as real
as with a model, and costs no more than the bookkeeping. The same requests give the same words on every machine.
Started as ``python -m kvtop.engine.simulator FD`` it takes the engine process's place (process.py).
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable
from math import exp
from random import Random
from zlib import crc32

from kvtop.engine.config import SchedulerConfig
from kvtop.engine.cost import CARDS, DEFAULT_CARD, LLAMA_3_8B_KV_BYTES_PER_TOKEN, CostModel
from kvtop.engine.engine import Engine
from kvtop.engine.engine_info import engine_info
from kvtop.engine.plan import Sampled, Scheduled, StepPlan, StepResult
from kvtop.engine.process import Progress, serve
from kvtop.engine.requests import Request, Turn
from kvtop.engine.sequences import Sequence
from kvtop.settings import EngineSettings

DEFAULT_POOL_BYTES = 2 << 30
MAX_MODEL_LEN = 8_192
EOS = 0
_LEXICON = """
block table page pool slot head tail queue token step prompt prefix cache share fork copy write read free take
hold evict swap wait run admit grow fill count map walk chain hash root leaf batch chunk decode prefill sample
draw stop start next last first old new long short full empty small large near far fast slow left right over
under the a of to in on by for and or not is was has will can may then when where while until after before
"""
WORDS = _LEXICON.split()
VOCABULARY = 128_256
"""Llama 3's, so that a workload of token ids runs here too."""


class SimulatedRunner:
    """``spend`` is called with the seconds a step takes: sleep for real time, or move a virtual clock. The end token
    of a request's i-th sample comes after ``answer_length`` tokens, unless max_tokens or ignore_eos say otherwise."""

    def __init__(
        self,
        cost: CostModel,
        spend: Callable[[float], None] = time.sleep,
        answer_length: Callable[[Request, int], int] | None = None,
    ) -> None:
        self._cost = cost
        self._spend = spend
        self._answer_length = answer_length or typical_length

    def run(self, plan: StepPlan) -> StepResult:
        self._spend(self._seconds(plan))
        return StepResult([self._sample(entry) for entry in plan.scheduled], plan.num_tokens)

    def release(self, sequence: Sequence) -> None:
        """Nothing is kept of a sequence."""

    def _seconds(self, plan: StepPlan) -> float:
        prefill_tokens = sum(entry.count for entry in plan.scheduled if entry.count > 1)
        context_tokens = sum(entry.start + entry.count for entry in plan.scheduled)
        return self._cost.step_seconds(prefill_tokens, context_tokens)

    def _sample(self, entry: Scheduled) -> list[Sampled]:
        sequence = entry.sequence
        if entry.candidates:
            first = _hash(sequence, sequence.index)
            return [Sampled(1 + (first + i) % len(WORDS), -1.0 - i) for i in range(entry.candidates)]
        return [Sampled(self._next_token(sequence, sequence.index + i), -1.0) for i in range(entry.draws)]

    def _next_token(self, sequence: Sequence, index: int) -> int:
        request = sequence.request
        if not request.ignore_eos and sequence.generated >= self._answer_length(request, index):
            return EOS
        return 1 + _hash(sequence, index) % len(WORDS)


def _hash(sequence: Sequence, index: int) -> int:
    return crc32(f"{sequence.request.id}/{index}/{len(sequence.tokens)}".encode("utf-8", "replace"))


def typical_length(request: Request, index: int) -> int:
    """Tokens after which this sample says it is done: log-normal around a third of ``max_tokens``."""
    spread = Random(crc32(f"{request.id}/{index}".encode("utf-8", "replace"))).gauss(0.0, 0.7)
    return max(1, round(request.max_tokens / 3 * exp(spread)))


class WordCodec:
    """A token a word: equal words are equal tokens, so that equal beginnings share a prefix. In chat, a word
    stands before each turn and one after the last."""

    def encode(self, prompt: str, *, chat: bool = False) -> list[int]:
        return self.encode_turns([Turn("user", prompt)]) if chat else [_token(word) for word in prompt.split()]

    def encode_turns(self, turns: list[Turn]) -> list[int]:
        words = [word for turn in turns for word in (f"<{turn.role}>", *turn.content.split())]
        return [_token(word) for word in (*words, "<assistant>")]

    def decode(self, tokens: list[int]) -> str:
        return "".join(_word(token) for token in tokens)

    def stream(self, request: Request) -> WordStream:
        return WordStream(request)


class WordStream:
    """Incremental text of one sequence."""

    def __init__(self, request: Request) -> None:
        self._stops = request.stop
        self.text = ""
        self.stopped: str | None = None

    def push(self, token: int) -> str:
        piece = _word(token)
        self.text += piece
        self.stopped = next((stop for stop in self._stops if stop in self.text), None)
        return piece

    def flush(self) -> str:
        return ""


def _token(word: str) -> int:
    return 1 + crc32(word.encode("utf-8", "replace")) % len(WORDS)


def _word(token: int) -> str:
    return "" if token == EOS else WORDS[(token - 1) % len(WORDS)] + " "


def build_simulated_engine(
    settings: EngineSettings,
    cost: CostModel = CARDS[DEFAULT_CARD],
    spend: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
    wall: Callable[[], float] = time.time,
) -> Engine:
    """An engine for ``settings`` that needs no model, at Llama-3-8B's KV size."""
    block_bytes = settings.block_size * LLAMA_3_8B_KV_BYTES_PER_TOKEN
    config = SchedulerConfig(
        num_blocks=settings.num_blocks or max(1, (settings.kv_memory or DEFAULT_POOL_BYTES) // block_bytes),
        block_size=settings.block_size,
        swap_blocks=settings.swap_memory // block_bytes,
        max_num_seqs=settings.max_num_seqs,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        max_model_len=settings.max_model_len or MAX_MODEL_LEN,
        policy=settings.policy,
        preempt=settings.preempt,
        victim=settings.victim,
        watermark=settings.watermark,
        prefix_cache=settings.prefix_cache,
    )
    info = engine_info(
        config,
        model="simulated Llama-3-8B",
        device="none",
        dtype="bfloat16",
        kernel="cost model",
        kv_bytes_per_token=LLAMA_3_8B_KV_BYTES_PER_TOKEN,
        simulated=True,
        chat_template=True,
    )
    runner = SimulatedRunner(cost, spend)
    return Engine(info, config, runner, WordCodec(), frozenset({EOS}), VOCABULARY, monotonic=monotonic, wall=wall)


def _build(settings: EngineSettings, report: Progress) -> Engine:
    report("simulated: no model to load", 1, 1)
    return build_simulated_engine(settings)


def main(arguments: list[str]) -> int:
    """Entry of the process. ``arguments``: the number of the inherited socket."""
    return serve(socket.socket(fileno=int(arguments[0])), _build)


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
