"""A real scheduler over the fake runner with a view beside it: what tests of panels' words and figures look at."""

from __future__ import annotations

from kvtop.engine.control import AnyCommand
from kvtop.engine.requests import Request
from kvtop.view.describe import describe
from kvtop.view.pool_view import PoolView
from tests.engine.harness import Harness


class WatchedEngine(Harness):
    def __init__(self, **config: object) -> None:
        super().__init__(**config)
        self.view = PoolView()
        self._read = 0

    def send(self, command: AnyCommand):
        reply = super().send(command)
        self._show()
        return reply

    def run(self, steps: int = 1) -> None:
        for _ in range(steps):
            self.step()
            self._show()

    def run_until(self, kind: str, limit: int = 200) -> None:
        """Step until an event of that type comes."""
        for _ in range(limit):
            before = self.view.log.total
            self.run()
            new, _ = self.view.log.since(before)
            if any(entry.event.__struct_config__.tag == kind for entry in new):
                return
        raise AssertionError(f"no {kind} within {limit} steps")

    def lines(self) -> list[str]:
        """What the log says that was not asked for yet."""
        new, _ = self.view.log.since(self._read)
        self._read = self.view.log.total
        return [describe(entry.event, self.view) for entry in new]

    def _show(self) -> None:
        for batch in self.batches[self.view.number :]:
            self.view.apply(batch)


def request(name: str, prompt: int | list[int], max_tokens: int = 8, **more: object) -> Request:
    """A request with a prompt of that many tokens, all its own, or of these."""
    tokens = prompt if isinstance(prompt, list) else [sum(map(ord, name)) % 40 + i for i in range(prompt)]
    return Request(id=name, prompt_token_ids=tokens, max_tokens=max_tokens, **more)  # type: ignore[arg-type]
