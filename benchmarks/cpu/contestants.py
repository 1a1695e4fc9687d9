"""The programs that are compared, each as one call from token ids to token ids: engine, ``generate``, and transformers'
continuous batching.

All run in this process, on the same weights, dtype and threads, greedy, and stop after exactly the tokens asked for.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, GenerationConfig

from kvtop.engine.config import SchedulerConfig
from kvtop.engine.control import Inject
from kvtop.engine.engine import Engine
from kvtop.engine.engine_info import engine_info
from kvtop.engine.events import Advanced, EngineInfo, Queued, StepTimed
from kvtop.engine.loading import LoadedModel, load_model
from kvtop.engine.requests import Request
from kvtop.models.resolve import resolve_model
from kvtop.settings import DEFAULT_MODEL, EngineSettings

FIXTURES = Path(__file__).parents[2] / "tests" / "fixtures"
BLOCK_SIZE = 16


@dataclass(slots=True, frozen=True)
class Job:
    """A prompt and how many tokens to generate after it."""

    prompt: list[int]
    count: int


def fixture(name: str) -> list[Job]:
    """``batch57`` or ``workload64``."""
    requests = json.loads((FIXTURES / f"{name}.json").read_text())["requests"]
    return [Job(request["prompt_token_ids"], request["max_tokens"]) for request in requests]


@dataclass(slots=True, frozen=True)
class Outcome:
    """``answers[i]`` belongs to job i. ``decode_step_s`` are times of the steps in which all jobs only decoded; empty
    where a program does not show them."""

    seconds: float
    answers: list[list[int]]
    decode_step_s: list[float]

    @property
    def tokens_per_second(self) -> float:
        return sum(map(len, self.answers)) / self.seconds


class Contest:
    """The default model, loaded once for the engine and once for transformers."""

    def __init__(self, dtype: str = "bfloat16") -> None:
        transformers.logging.set_verbosity_error()
        self.folder = folder = resolve_model(DEFAULT_MODEL)
        settings = EngineSettings(dtype=dtype, num_blocks=1, device="cpu")
        self.engine_model: LoadedModel = load_model(folder, settings)
        self.plain: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()
        self.name = f"{self.engine_model.name}, {dtype}, {torch.get_num_threads()} threads, torch {torch.__version__}"

    def engine(self, jobs: list[Job], max_num_seqs: int = 64, num_blocks: int | None = None) -> Outcome:
        """Our engine, scheduler, events and text included; an ample pool unless ``num_blocks`` says otherwise."""
        loaded = self.engine_model
        needed = sum(-(-(len(job.prompt) + job.count) // BLOCK_SIZE) for job in jobs)
        config = SchedulerConfig(
            num_blocks=num_blocks or needed,
            block_size=BLOCK_SIZE,
            max_num_seqs=max_num_seqs,
            max_model_len=loaded.max_model_len,
        )
        runner = loaded.parts.new_runner(config.num_blocks, BLOCK_SIZE)
        engine = Engine(_info(loaded, config), config, runner, loaded.codec, vocab_size=loaded.vocab_size)
        requests = [
            Request(id=str(i), prompt_token_ids=job.prompt, max_tokens=job.count, ignore_eos=True)
            for i, job in enumerate(jobs)
        ]
        started = time.perf_counter()
        if error := engine.apply(Inject(requests=requests)).error:
            raise RuntimeError(error)
        batches, step_seconds = [], []
        while engine.has_work:
            step_started = time.perf_counter()
            batches.append(engine.step())
            step_seconds.append(time.perf_counter() - step_started)
        seconds = time.perf_counter() - started
        answers: list[list[int]] = [[] for _ in jobs]
        job_of: dict[int, int] = {}
        decode_step_s = []
        for batch, step_s in zip(batches, step_seconds, strict=True):
            for event in batch.events if batch else []:
                if isinstance(event, Queued):
                    job_of[event.seq] = int(event.request_id)
                elif isinstance(event, Advanced):
                    for seq, token in zip(event.seqs, event.sampled, strict=True):
                        if token >= 0:
                            answers[job_of[seq]].append(token)
                elif isinstance(event, StepTimed) and (event.prefill_tokens, event.decode_tokens) == (0, len(jobs)):
                    decode_step_s.append(step_s)
        return Outcome(seconds, answers, decode_step_s)

    @torch.inference_mode()
    def generate(self, jobs: list[Job]) -> Outcome:
        """``generate`` on one static batch: prompts padded on the left, everybody runs until the last is done."""
        longest = max(len(job.prompt) for job in jobs)
        count = max(job.count for job in jobs)
        rows = [[0] * (longest - len(job.prompt)) + job.prompt for job in jobs]
        mask = [[0] * (longest - len(job.prompt)) + [1] * len(job.prompt) for job in jobs]
        stamps: list[float] = []

        def note_time(_: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            stamps.append(time.perf_counter())
            return scores

        started = time.perf_counter()
        output = self.plain.generate(
            torch.tensor(rows),
            attention_mask=torch.tensor(mask),
            max_new_tokens=count,
            min_new_tokens=count,
            do_sample=False,
            pad_token_id=0,
            logits_processor=[note_time],
        )
        seconds = time.perf_counter() - started
        answers = [row[longest : longest + job.count] for row, job in zip(output.tolist(), jobs, strict=True)]
        return Outcome(seconds, answers, [later - now for now, later in pairwise(stamps)])

    def generate_by_16(self, jobs: list[Job]) -> Outcome:
        """``generate`` on static batches of 16 jobs, in their order."""
        parts = [self.generate(jobs[start : start + 16]) for start in range(0, len(jobs), 16)]
        return Outcome(sum(part.seconds for part in parts), [row for part in parts for row in part.answers], [])

    def continuous_batching(self, jobs: list[Job]) -> Outcome:
        """transformers' own continuous batching; all jobs generate the same number of tokens."""
        count = jobs[0].count
        if any(job.count != count for job in jobs):
            raise ValueError("continuous batching of transformers takes one number of new tokens for all")
        config = GenerationConfig(max_new_tokens=count, do_sample=False, eos_token_id=-1, pad_token_id=0)
        started = time.perf_counter()
        outputs = self.plain.generate_batch([job.prompt for job in jobs], generation_config=config)
        seconds = time.perf_counter() - started
        by_request = sorted(outputs.values(), key=lambda output: int(output.request_id.rsplit("_", 1)[-1]))
        return Outcome(seconds, [list(output.generated_tokens) for output in by_request], [])


def _info(loaded: LoadedModel, config: SchedulerConfig) -> EngineInfo:
    return engine_info(
        config,
        model=loaded.name,
        device=loaded.device,
        dtype=loaded.dtype,
        kernel=loaded.kernel,
        kv_bytes_per_token=loaded.pool.kv_bytes_per_token,
    )
