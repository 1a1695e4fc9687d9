"""Where the requests of the inject form go, and what is known there: an engine of our own, or a server that is watched.

The form asks for counts and sends; who carries it out, and how much is free, is the destination's to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol

from kvtop.app.feed import Feed
from kvtop.app.injection import need_of
from kvtop.engine.control import Measure, Reply
from kvtop.engine.requests import Request
from kvtop.view.words import count

Answer = Callable[[Reply], None]
_OURS = re.compile(r"req-([0-9]{1,9})")


class Destination(Protocol):
    @property
    def not_ready(self) -> str:
        """Why it cannot be said yet what requests need; empty: it can."""
        ...

    @property
    def has_chat_template(self) -> bool:
        """Also while that is not known yet."""
        ...

    def first_number(self) -> int:
        """The first free number for requests without a name."""
        ...

    def measure(self, request: Request, answer: Answer) -> None:
        """Count the tokens of a prompt; they come as the reply's value."""
        ...

    def send(self, requests: list[Request], answer: Answer) -> None:
        """Send them. Raises ValueError when they cannot be sent as they are."""
        ...

    def need(self, requests: Sequence[Request], prompt_tokens: Sequence[int]) -> str:
        """What requests need whose prompts have so many tokens, beside what there is; in words."""
        ...


class EngineDestination:
    """The engine that a feed tells of."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._sent_to = feed.live
        self._sent: set[str] = set()
        """Ids of what went to that engine: the view hears of a request only when it arrives."""

    @property
    def not_ready(self) -> str:
        loading = "the engine is still loading: what it needs is not known yet; it goes out when the engine is ready"
        return loading if self._feed.live.info is None else ""

    @property
    def has_chat_template(self) -> bool:
        """What is held while it is not known is put right when it goes out."""
        info = self._feed.live.info
        return info is None or info.chat_template

    def first_number(self) -> int:
        view = self._feed.live
        taken = {row.request_id for row in view.sequences.values()} | {ended.request_id for ended in view.ended}
        if view is self._sent_to:
            taken |= self._sent
        numbers = [int(found[1]) for request_id in taken if (found := _OURS.fullmatch(request_id))]
        return max(view.counters.requests, *numbers, 0) + 1

    def measure(self, request: Request, answer: Answer) -> None:
        self._feed.send(Measure(request=request), answer)

    def send(self, requests: list[Request], answer: Answer) -> None:
        if self._feed.live is not self._sent_to:  # another engine, which counts from the start
            self._sent_to, self._sent = self._feed.live, set()
        self._sent.update(request.id for request in requests)
        self._feed.inject(requests, answer)

    def need(self, requests: Sequence[Request], prompt_tokens: Sequence[int]) -> str:
        view = self._feed.live
        assert view.info is not None, "asked before it was ready"
        need = need_of(requests, prompt_tokens, view.block_size, view.info.max_model_len)
        blocks = view.blocks
        words = f"needs {count(need.at_once, 'block')} now, up to {need.at_most:,} later; {blocks.free:,} are free"
        if blocks.cached:
            words += f", {blocks.cached:,} cached can be taken back"
        if need.at_most > blocks.num_blocks:
            words += f". The pool has {blocks.num_blocks:,}: some will wait or be preempted"
        return words
