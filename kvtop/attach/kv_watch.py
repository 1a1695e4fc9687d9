"""The KV events of one server: its publishers found, listened to, and turned into one picture of what is cached where.

``start`` looks for the publishers in the background, again and again until the server says; from then on ``poll``
applies what they send. What cannot be known, or does not fit, is put in words by ``notes``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import httpx2

from kvtop.attach.kv_hearing import Applied
from kvtop.attach.kv_listener import KvListener
from kvtop.attach.kv_sources import (
    SGLANG_PAGE,
    VLLM_PAGE,
    KvSource,
    NoSources,
    sglang_sources,
    silence_hint,
    vllm_sources,
)
from kvtop.attach.kv_stream import KvStream, Restarted
from kvtop.attach.server import ServerWatch
from kvtop.attach.targets import Target
from kvtop.view.clean import clean_line
from kvtop.view.residency import Residency, disagreement

ASK_SECONDS = 5.0
TIMEOUT_SECONDS = 3.0
NOT_ASKED = "the server has not said yet where it publishes"


def ask_sources(target: Target) -> list[KvSource]:
    """Ask a server for its publishers; waits for it, at most a few seconds.

    Raises:
        NoSources: it has none, or says nothing of them.
        httpx2.HTTPError: it cannot be reached.
    """
    with httpx2.Client(timeout=TIMEOUT_SECONDS, trust_env=False) as client:
        for page, understand in ((VLLM_PAGE, vllm_sources), (SGLANG_PAGE, sglang_sources)):
            response = client.get(target.base + page)
            if response.status_code != 404:
                try:
                    return understand(response.raise_for_status().json(), target)
                except ValueError as error:
                    raise NoSources(str(error)) from None
    raise NoSources(f"KV events are not known here: it has neither {VLLM_PAGE} nor {SGLANG_PAGE}")


class Listener(Protocol):
    """Where the messages of one publisher come from: a socket, or a recording."""

    source: KvSource
    started_s: float

    @property
    def stream(self) -> KvStream: ...

    @property
    def unknown(self) -> Mapping[str, int]: ...

    @property
    def broken(self) -> int: ...

    def start(self) -> None: ...

    def poll(self, most: int = 1_000) -> list[Applied]: ...

    def server_restarted(self, why: str) -> None: ...

    def silent_s(self) -> float: ...

    def stop(self) -> None: ...

    def close(self) -> None: ...


class KvWatch:
    """``residency`` is up to date after each ``poll``; ``listeners`` is empty until the server told its publishers."""

    def __init__(
        self,
        target: Target,
        sources: Sequence[KvSource] = (),
        clock: Callable[[], float] = time.monotonic,
        make_listener: Callable[[KvSource], Listener] | None = None,
    ) -> None:
        self.target = target
        self.residency = Residency()
        self.listeners: list[Listener] = []
        self.no_events = NOT_ASKED
        """Why there is nothing to listen to; empty once there is."""
        self.cleared: dict[int, str] = {}
        """Rank → why its view was last cleared by a restart."""
        self._make_listener = make_listener or (lambda source: KvListener(source, clock))
        self._tokens: dict[int, tuple[float, float]] = {}
        """Rank → last message's time, tokens computed by then."""
        self._followed_s: float | None = None
        self._found = list(sources)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="kv-sources", daemon=True)

    def start(self) -> None:
        if self._found:
            self._listen()
        else:
            self._thread.start()

    @property
    def has_asked(self) -> bool:
        """The server was asked for its publishers, whatever it said."""
        return bool(self.listeners) or self.no_events != NOT_ASKED

    def poll(self) -> int:
        """Apply what has come; returns how many batches."""
        if self._found and not self.listeners:
            self._listen()
        applied = 0
        for listener in self.listeners:
            for step in listener.poll():
                applied += 1
                if isinstance(step, Restarted):
                    self.residency.forget(listener.source.rank)
                    self.cleared[listener.source.rank] = step.why
                else:
                    rank, events = step
                    for event in events:
                        self.residency.apply(rank, event)
        return applied

    def follow(self, watch: ServerWatch) -> None:
        """Clear what was told before a restart that the server's metrics show, where numbers did not show it already
        (they may: then what came since is of the new life)."""
        if watch.restarted_s is None or watch.restarted_s == self._followed_s:
            return
        self._followed_s = watch.restarted_s
        for listener in self.listeners:
            seen_s = listener.stream.restarted_s
            if seen_s is None or seen_s < (watch.last_life_s or 0.0):
                listener.server_restarted("its metrics began anew")

    def notes(self, watch: ServerWatch) -> list[str]:
        """What somebody who looks at the residency must know, in plain words; ``watch``: the same server's metrics."""
        notes = [] if self.listeners or not self.no_events else [self.no_events]
        for listener in self.listeners:
            rank, stream = listener.source.rank, listener.stream
            if stream.incomplete_since is not None:
                why = "the replay is under way" if stream.waiting else f"{stream.lost:,} messages never came"
                notes.append(f"rank {rank}: incomplete since {stream.incomplete_since:,} ({why})")
            if rank in self.cleared:
                notes.append(f"rank {rank}: restarted, what was cached before is gone ({self.cleared[rank]})")
            if listener.broken:
                notes.append(f"rank {rank}: {listener.broken:,} messages could not be read and were skipped")
            notes += [
                f"rank {rank}: {count:,} events of kind {clean_line(kind, 40)!r} were skipped"
                for kind, count in sorted(listener.unknown.items())
            ]
            history = watch.ranks.get(str(rank))
            if history is None or history.last is None:
                continue
            hint = silence_hint(
                listener.source, listener.silent_s(), self._tokens_since(listener, history.last.counters)
            )
            last = history.last
            odd = disagreement(self.residency, rank, last.gauges.get("usage"), last.num_blocks)
            notes += [f"rank {rank}: {clean_line(note, 300)}" for note in (hint, odd) if note]
        return notes

    def _tokens_since(self, listener: Listener, counters: dict[str, float]) -> float | None:
        """Tokens computed since the last message, as far as the counters tell."""
        computed = counters.get("prompt_tokens", 0.0) + counters.get("generated_tokens", 0.0)
        last_live_s = listener.stream.last_live_s or 0.0
        rank = listener.source.rank
        if rank not in self._tokens or self._tokens[rank][0] != last_live_s or computed < self._tokens[rank][1]:
            self._tokens[rank] = (last_live_s, computed)
        return computed - self._tokens[rank][1]

    def stop(self) -> None:
        """Begin to stop: of many, all first stop, and are then closed."""
        self._closing.set()
        for listener in self.listeners:
            listener.stop()

    def close(self) -> None:
        """Stop asking and listening. Closing twice is closing once."""
        self._closing.set()
        for listener in self.listeners:
            listener.close()

    def _listen(self) -> None:
        self.listeners = [self._make_listener(source) for source in self._found]
        for listener in self.listeners:
            listener.start()
        self.no_events = ""

    def _ask(self) -> None:
        while not self._closing.is_set():
            try:
                self._found = ask_sources(self.target)
                return
            except NoSources as error:
                self.no_events = clean_line(str(error), 200)
            except httpx2.HTTPStatusError as error:  # whose own words hold the address, password and all
                status = error.response.status_code
                self.no_events = f"it cannot be asked where it publishes: HTTP status {status}"
            except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
                self.no_events = f"it cannot be asked where it publishes: {clean_line(str(error), 200)}"
            self._closing.wait(ASK_SECONDS)
