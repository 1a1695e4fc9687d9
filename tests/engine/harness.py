"""Drives a real Engine over the fake runner: self-check after every step, freed blocks poisoned, batches kept."""

from __future__ import annotations

from typing import TypeVar

from kvtop.engine.check import check, check_drained
from kvtop.engine.config import SchedulerConfig
from kvtop.engine.control import AnyCommand, Inject, Reply
from kvtop.engine.engine import Engine
from kvtop.engine.engine_info import engine_info
from kvtop.engine.events import Advanced, AnyEvent, Batch, Completed, EngineInfo, Event, Forked, Queued, Rejected
from kvtop.engine.requests import Request, Turn
from kvtop.engine.scheduler import Scheduler
from tests.engine.fake_runner import POISON, FakeRunner, oracle

E = TypeVar("E", bound=Event)


class NumberCodec:
    """Text is token ids with spaces between them."""

    def encode(self, prompt: str, *, chat: bool = False) -> list[int]:
        if chat:
            raise ValueError("chat: numbers have no chat template")
        return [int(word) for word in prompt.split()]

    def encode_turns(self, turns: list[Turn]) -> list[int]:
        raise ValueError("messages: numbers have no chat template")

    def decode(self, tokens: list[int]) -> str:
        return "".join(f"{token} " for token in tokens)

    def stream(self, request: Request) -> NumberStream:
        return NumberStream(request)


class NumberStream:
    def __init__(self, request: Request) -> None:
        self._request = request
        self.text = ""
        self.stopped: str | None = None

    def push(self, token: int) -> str:
        self.text += f"{token} "
        self.stopped = next((stop for stop in self._request.stop if stop in self.text), None)
        return f"{token} "

    def flush(self) -> str:
        return ""


class Ticker:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def fake_info(config: SchedulerConfig) -> EngineInfo:
    return engine_info(config, model="fake", device="cpu", dtype="none", kernel="none", kv_bytes_per_token=16)


class Harness:
    """``outputs[request id][sample index]`` grows as tokens come; ``ended`` maps request ids to their terminal
    event."""

    def __init__(self, **config: object) -> None:
        self.config = SchedulerConfig(**config)  # type: ignore[arg-type]
        self.runner = FakeRunner(self.config.num_blocks, self.config.block_size, self.config.swap_blocks)
        self.clock = Ticker()
        self.engine = Engine(
            fake_info(self.config),
            self.config,
            self.runner,
            NumberCodec(),
            vocab_size=1000,
            inspect=check,
            monotonic=self.clock,
            wall=self.clock,
        )
        self.batches: list[Batch] = []
        self.events: list[AnyEvent] = []
        self.ended: dict[str, Completed | Rejected] = {}
        self.tokens: dict[int, list[int]] = {}
        self._names: dict[int, tuple[str, int]] = {}

    @property
    def scheduler(self) -> Scheduler:
        return self.engine.scheduler

    @property
    def outputs(self) -> dict[str, dict[int, list[int]]]:
        outputs: dict[str, dict[int, list[int]]] = {}
        for seq, (request_id, index) in self._names.items():
            outputs.setdefault(request_id, {})[index] = self.tokens[seq]
        return outputs

    def add(self, *requests: Request) -> None:
        reply = self.send(Inject(requests=list(requests)))
        assert not reply.error, reply.error

    def send(self, command: AnyCommand) -> Reply:
        reply = self.engine.apply(command)
        self._take(self.engine.flush())
        self._poison_free_blocks()
        return reply

    def step(self) -> list[AnyEvent]:
        """One step; its events."""
        batch = self.engine.step()
        self._take(batch)
        self._poison_free_blocks()
        return list(batch.events) if batch else []

    def drain(self, limit: int = 5000) -> None:
        """Step until nothing is left, then check that nothing is held."""
        for _ in range(limit):
            if not self.engine.has_work:
                check_drained(self.scheduler)
                return
            before = self.engine.scheduler.journal.last_id
            self.step()
            assert self.engine.scheduler.journal.last_id > before, "a step did nothing"
        raise AssertionError(f"unfinished after {limit} steps: {list(self.scheduler.roster.groups)}")

    def _take(self, batch: Batch | None) -> None:
        if batch is None:
            return
        self.batches.append(batch)
        for event in batch.events:
            self.events.append(event)
            match event:
                case Queued():
                    self._names[event.seq] = (event.request_id, 0)
                    self.tokens[event.seq] = []
                case Forked():
                    self._names[event.seq] = (event.request_id, event.index)
                    self.tokens[event.seq] = list(self.tokens[event.parent])
                case Advanced():
                    self._advance(event)
                case Completed() | Rejected():
                    assert event.request_id not in self.ended, "two terminal events for one request"
                    self.ended[event.request_id] = event

    def _advance(self, event: Advanced) -> None:
        for seq, token in zip(event.seqs, event.sampled, strict=True):
            if token >= 0:
                self.tokens[seq].append(token)

    def _poison_free_blocks(self) -> None:
        for block in self.scheduler.kv.pool.free:
            if not any(block in (t.src, t.dst) for t in self.scheduler.kv.transfers):
                self.runner.pool[block] = [POISON] * self.config.block_size
        for block in self.scheduler.kv.swap.free:
            self.runner.swap[block] = [POISON] * self.config.block_size

    def of(self, kind: type[E]) -> list[E]:
        """All events of a type so far."""
        return [event for event in self.events if isinstance(event, kind)]


def ask(name: str, prompt: list[int] | int, max_tokens: int = 4, **more: object) -> Request:
    tokens = [(7 * i + len(name)) % 40 for i in range(prompt)] if isinstance(prompt, int) else prompt
    return Request(id=name, prompt_token_ids=tokens, max_tokens=max_tokens, **more)  # type: ignore[arg-type]


def assert_equal_to_oracle(harness: Harness, *requests: Request) -> None:
    for request in requests:
        for index, tokens in harness.outputs[request.id].items():
            assert tokens == oracle(request, request.prompt_token_ids or [], harness.config.max_model_len, index)
