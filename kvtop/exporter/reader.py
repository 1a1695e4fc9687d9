"""What the exporter must be able to ask a server's scheduler, and nothing more: the seam between it and vLLM's objects.

Blocks are numbered from 0, the first one a request can hold: whoever implements this takes a placeholder off. A reader
answers for the moment it is asked in; it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import NamedTuple, Protocol

from kvtop.engine.events import FinishReason

RunningRow = tuple[str, int, int, int, int, int]
"""A running request, in what can change with every step: request id; tokens, prompt and generated; tokens whose KV has
been computed, not counting a step that is under way; preemptions; blocks in its table; its newest token's id. A plain
tuple: one is made for each running request with every observation."""


class RequestFacts(NamedTuple):
    """What never changes of a request."""

    prompt_tokens: int
    max_tokens: int
    priority: int


class RequestEnd(NamedTuple):
    """How a request ended."""

    request_id: str
    reason: FinishReason
    tokens: int
    computed: int
    stop_reason: str | int | None


class PoolReader(Protocol):
    """One scheduler and its pool."""

    @property
    def num_idle(self) -> int:
        """Blocks that nobody holds."""
        ...

    @property
    def index(self) -> object:
        """The prefix index, for its identity only: a server that empties it makes a new one."""
        ...

    @property
    def num_alive(self) -> int:
        """Requests that are not over."""
        ...

    def newest_first(self) -> Iterator[str]:
        """Ids of requests that are not over, the newest first."""
        ...

    def is_alive(self, request_id: str) -> bool: ...

    def running(self) -> Sequence[RunningRow]:
        """Running requests, in the scheduler's order."""
        ...

    def grown(self, known: Mapping[str, Sized]) -> Sequence[RunningRow]:
        """Those running requests that are not among ``known``, by id, or whose table is longer than what is known."""
        ...

    def facts(self, request_id: str) -> RequestFacts:
        """Of a request that is not over."""
        ...

    def end(self, request_id: str) -> RequestEnd:
        """Of a request that ``facts`` was asked about and that is over now."""
        ...

    def forget(self, request_id: str) -> None:
        """A request that is over will not be asked about again."""
        ...

    def tokens(self, request_id: str) -> int:
        """Prompt and generated tokens of a request that is not over."""
        ...

    def new_tokens(self, request_id: str, count: int) -> Iterable[int]:
        """Token ids: the last ``count`` of a request."""
        ...

    def table(self, request_id: str, start: int) -> list[int]:
        """Its block table from logical block ``start`` on; empty when it holds nothing."""
        ...

    def ref_counts(self) -> Iterable[int]:
        """Of all blocks."""
        ...

    def block_hashes(self) -> Iterable[int]:
        """Of all blocks."""
        ...

    def block_hash(self, block: int) -> int:
        """Content hash; 0: not in the prefix index."""
        ...

    def queue(self) -> Iterator[int]:
        """Idle blocks, the one handed out next first."""
        ...

    def queue_backwards(self) -> Iterator[int]:
        """Idle blocks, the one handed out last first."""
        ...
