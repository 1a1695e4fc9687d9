"""A watched server as the place where requests of the inject form go: its OpenAI endpoint, beside what metrics tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvtop.app.destination import Answer
from kvtop.app.injection import need_of
from kvtop.attach.traffic import ServerTraffic
from kvtop.engine.control import Inject, Measure
from kvtop.engine.requests import Request
from kvtop.view.fleet import FleetRow
from kvtop.view.words import UNKNOWN, count

ENDLESS = 1 << 40
"""Stands for the longest request of a server that does not say it."""


class ServerDestination:
    """``row`` gives the chosen rank as it is now; ``limit`` its max_model_len, None where it is not told."""

    def __init__(self, traffic: ServerTraffic, row: Callable[[], FleetRow], limit: Callable[[], float | None]) -> None:
        self._traffic = traffic
        self._row = row
        self._limit = limit

    @property
    def not_ready(self) -> str:
        return ""

    @property
    def has_chat_template(self) -> bool:
        """The server says when it has none."""
        return True

    def first_number(self) -> int:
        return self._traffic.next_number

    def measure(self, request: Request, answer: Answer) -> None:
        self._traffic.send(Measure(request=request), answer)

    def send(self, requests: list[Request], answer: Answer) -> None:
        self._traffic.send(Inject(requests=requests), answer)

    def need(self, requests: Sequence[Request], prompt_tokens: Sequence[int]) -> str:
        row = self._row()
        if not row.block_size:
            return f"goes to {row.server}; it does not tell the size of its blocks, so what it needs is {UNKNOWN}"
        need = need_of(requests, prompt_tokens, int(row.block_size), int(self._limit() or ENDLESS))
        words = f"needs {count(need.at_once, 'block')} now, up to {need.at_most:,} later"
        if row.num_blocks and row.usage is not None:
            free = (1 - row.usage) * row.num_blocks
            words += f"; about {free:,.0f} of {row.server}'s {row.num_blocks:,.0f} are free"
        return words
