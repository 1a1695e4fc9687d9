"""A source without a process: the real engine on its simulated runner, stepped by the test, on a clock of its own."""

from __future__ import annotations

from kvtop.engine.control import AnyCommand, BatchMessage, EngineState, Inject, Quit, Status
from kvtop.engine.cost import CARDS, DEFAULT_CARD
from kvtop.engine.engine import Engine
from kvtop.engine.requests import Request
from kvtop.engine.sequences import Sequence
from kvtop.engine.simulator import build_simulated_engine
from kvtop.settings import EngineSettings
from kvtop.sources.history import History
from kvtop.sources.recorder import Recorder
from kvtop.sources.source import Message

START_S = 1_000_000_000.0


class SteppedSource:
    """``run`` computes steps; ``poll`` hands over what they told, as a process would."""

    def __init__(self, settings: EngineSettings, loading: bool = False) -> None:
        self.settings = settings
        self.clock_s = START_S
        self.messages: list[Message] = []
        self.sent: list[AnyCommand] = []
        self.restarts = 0
        self.alive = True
        self.history = History()
        self.recorder = Recorder([self.history])
        self.engine = self._build()
        if loading:
            self.say("loading")
        else:
            self.ready()

    def _build(self) -> Engine:
        return build_simulated_engine(
            self.settings, CARDS[DEFAULT_CARD], self._spend, monotonic=lambda: self.clock_s, wall=lambda: self.clock_s
        )

    def _spend(self, seconds: float) -> None:
        self.clock_s += seconds

    def ready(self) -> None:
        """The model is loaded: a first snapshot, and the engine idles."""
        self._take(self.engine.flush())
        self.say("idle")

    def say(self, state: EngineState, detail: str = "", **more: object) -> None:
        self.messages.append(Status(state=state, detail=detail, **more))  # type: ignore[arg-type]

    def inject(self, *requests: Request) -> None:
        reply = self.engine.apply(Inject(requests=list(requests)))
        assert not reply.error, reply.error
        self._take(self.engine.flush())

    def run(self, steps: int = 1) -> None:
        for _ in range(steps):
            self._take(self.engine.step())
        self.say("running")

    def live_sequences(self) -> list[Sequence]:
        """The engine's own unfinished sequences, with their tables."""
        return [sequence for group in self.engine.scheduler.roster.groups.values() for sequence in group.live]

    def _take(self, batch: object) -> None:
        if batch is not None:
            self.recorder.add(batch)  # type: ignore[arg-type]
            self.messages.append(BatchMessage(batch=batch))  # type: ignore[arg-type]

    # --- Source -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        pass

    def poll(self, max_messages: int = 1000) -> list[Message]:
        taken, self.messages = self.messages[:max_messages], self.messages[max_messages:]
        return taken

    def send(self, command: AnyCommand) -> None:
        self.sent.append(command)
        if isinstance(command, Quit):
            return
        self.messages.append(self.engine.apply(command))
        self._take(self.engine.flush())

    def restart(self) -> None:
        self.restarts += 1
        self.messages.clear()
        self.engine = self._build()
        self.ready()

    def close(self) -> None:
        pass


def story(num_blocks: int = 192, requests: int = 14, settings: EngineSettings | None = None) -> SteppedSource:
    """A pool under pressure: shared prefixes, parallel samples, waits and preemptions, the same at every run."""
    source = SteppedSource(settings or EngineSettings(num_blocks=num_blocks, block_size=16, max_num_seqs=12))
    common = "in the block table of the pool a page is free until a token is next " * 4
    for number in range(requests):
        source.inject(
            Request(
                id=f"req-{number + 1}",
                prompt=common * (1 + number % 3) + f"step {number} " * (7 * (number % 5)),
                max_tokens=120 + 40 * (number % 4),
                n=3 if number % 5 == 2 else 1,
                temperature=0.8 if number % 5 == 2 else 0.0,
                ignore_eos=number % 3 == 0,
            )
        )
    return source


class RunningSource(SteppedSource):
    """Runs by itself, as a process does: a step at every poll that finds no news. Another can take its place."""

    def poll(self, max_messages: int = 1000) -> list[Message]:
        if not self.messages:
            self._take(self.engine.step())
        return super().poll(max_messages)

    def replace(self, settings: EngineSettings) -> None:
        self.settings = settings
        self.restart()
