"""An engine that is served, for a test: the front that clients meet, over a real engine process."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx2

from kvtop.engine.control import AnyCommand
from kvtop.serve.address import Address
from kvtop.serve.front import Front, FrontSettings
from kvtop.settings import EngineSettings
from kvtop.sources.embedded import SIMULATOR_COMMAND, EmbeddedSource

PATIENCE_SECONDS = 20.0
FAKE_ENGINE = (sys.executable, str(Path(__file__).with_name("fake_engine.py")), "right")
DYING_ENGINE = (*FAKE_ENGINE[:-1], "dies")
SIMULATED = SIMULATOR_COMMAND


class Served:
    """``engine`` is how the engine's process is started; ``front`` and settings as their classes have them."""

    def __init__(self, engine: tuple[str, ...] = FAKE_ENGINE, front: dict[str, Any] | None = None, **settings: Any):
        chosen = FrontSettings(address=Address("127.0.0.1", 0), **(front or {}))
        self.front = Front(chosen, self.send)
        self.source = EmbeddedSource(
            EngineSettings(**settings), engine, on_batch=self.front.hear_batch, on_word=self.front.hear_word
        )
        self.front.start()
        self.source.start()
        self.url = self.front.address.url
        key = {"Authorization": f"Bearer {chosen.api_key}"} if chosen.api_key else {}
        self.http = httpx2.Client(base_url=self.url, timeout=PATIENCE_SECONDS, headers=key, trust_env=False)

    def __enter__(self) -> Served:
        self.until(lambda: self.http.get("/health").status_code == 200, "the engine never became ready")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.http.close()
        self.front.close()
        self.source.close()

    def send(self, command: AnyCommand) -> None:
        self.source.send(command)

    @property
    def model(self) -> str:
        name: str = self.http.get("/v1/models").json()["data"][0]["id"]
        return name

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's series that have these labels."""
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        lines = [line for line in self.http.get("/metrics").text.splitlines() if line.startswith(name + "{")]
        return sum(float(line.rpartition(" ")[2]) for line in lines if all(label in line for label in wanted))

    def until(self, holds: Callable[[], object], otherwise: str) -> None:
        """Wait for it."""
        end_s = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < end_s, otherwise
            time.sleep(0.01)
