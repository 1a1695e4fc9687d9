"""Where a server publishes its KV events: found by asking it, so that its address is all one needs.

vLLM answers ``/kv_event_sources`` with a publisher a data-parallel rank; SGLang describes its own under ``kv_events``
in ``/server_info``. Wildcards in what they say stand for the host that was asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvtop.attach.targets import Target

VLLM_PAGE = "/kv_event_sources"
SGLANG_PAGE = "/server_info"


@dataclass(frozen=True, slots=True)
class KvSource:
    """One publisher. Addresses are those to connect to."""

    rank: int
    endpoint: str
    replay_endpoint: str | None
    topic: str
    told: str
    """The endpoint as the server has it, for hints. Untrusted."""

    @property
    def binds(self) -> bool:
        """Whether a publisher with that endpoint binds it, so that a subscriber can connect (as vLLM and SGLang
        decide it). One that connects reaches nobody who connects too."""
        return any(sign in self.told for sign in ("*", "::")) or self.told.startswith(("ipc://", "tcp://0.0.0.0"))


class NoSources(ValueError):
    """The server publishes no KV events that can be listened to; the message says why."""


def given_sources(target: Target) -> list[KvSource]:
    """The publishers that somebody named; empty where the server is to be asked."""
    if not target.events:
        return []
    return [
        KvSource(
            rank,
            target.of_rank(target.events, rank),
            target.of_rank(target.replay, rank) if target.replay else None,
            target.topic,
            target.of_rank(target.events, rank),
        )
        for rank in range(target.ranks)
    ]


def vllm_sources(answer: Any, target: Target) -> list[KvSource]:
    """The publishers in an answer of ``/kv_event_sources``.

    Raises:
        NoSources: there are none, or the answer is not one.
    """
    if not isinstance(answer, dict):
        raise NoSources(f"{VLLM_PAGE} answered something else than a table of ranks")
    sources = []
    for rank, told in answer.items():
        if not (isinstance(told, dict) and str(rank).isdecimal()):
            raise NoSources(f"{VLLM_PAGE} answered something else than a table of ranks")
        if told.get("enable_kv_cache_events") and told.get("publisher") == "zmq":
            sources.append(
                _source(int(rank), told.get("endpoint"), told.get("replay_endpoint"), told.get("topic"), target)
            )
    if not sources:
        raise NoSources("KV events are off: start the server with --kv-events-config (see docs/attach.md)")
    return sources


def sglang_sources(answer: Any, target: Target) -> list[KvSource]:
    """The publishers in an answer of SGLang's ``/server_info``.

    Raises:
        NoSources: there are none, or the answer is not one.
    """
    told = answer.get("kv_events") if isinstance(answer, dict) else None
    if not isinstance(told, dict):
        raise NoSources("KV events are off: start the server with --kv-events-config (see docs/attach.md)")
    host, base, count = told.get("endpoint_host"), told.get("endpoint_port_base"), told.get("dp_size", 1)
    replay = told.get("replay_endpoint_port_base")
    if not (isinstance(host, str) and isinstance(base, int) and isinstance(count, int) and 0 < count <= 1024):
        raise NoSources(f"kv_events in {SGLANG_PAGE} lacks a host, a port or a number of ranks")
    return [
        _source(
            rank,
            f"tcp://{host}:{base + rank}",
            f"tcp://*:{replay + rank}" if isinstance(replay, int) else None,
            told.get("topic"),
            target,
        )
        for rank in range(count)
    ]


def _source(rank: int, endpoint: Any, replay: Any, topic: Any, target: Target) -> KvSource:
    if not isinstance(endpoint, str) or "://" not in endpoint:
        raise NoSources(f"rank {rank} names no endpoint")
    return KvSource(
        rank,
        reachable(endpoint, target.host),
        reachable(replay, target.host) if isinstance(replay, str) and "://" in replay else None,
        topic if isinstance(topic, str) else "",
        endpoint,
    )


def reachable(endpoint: str, host: str) -> str:
    """An endpoint as a subscriber connects to it: ``tcp://*:5557`` on ``gpu-1`` is ``tcp://gpu-1:5557``."""
    scheme, _, rest = endpoint.partition("://")
    if scheme != "tcp":
        return endpoint
    there, _, port = rest.rpartition(":")
    return f"tcp://{host}:{port}" if there in ("*", "0.0.0.0", "::", "[::]") else endpoint


SILENT_SECONDS = 15.0
SILENT_TOKENS = 512
"""So many tokens fill blocks, whatever their size."""


def silence_hint(source: KvSource, silent_s: float, tokens: float | None) -> str | None:
    """Why no event may come, once none has come for ``silent_s`` seconds in which ``tokens`` were computed."""
    if silent_s < SILENT_SECONDS or tokens is None or tokens < SILENT_TOKENS:
        return None
    causes = []
    if not source.binds:
        port = source.told.rpartition(":")[2]
        causes.append(f"its endpoint {source.told} makes it connect instead of bind; give it tcp://*:{port}")
    causes.append(f"its topic may not begin with {source.topic!r}" if source.topic else "a firewall may hide its port")
    causes.append("KV events may be off, or prefix caching")
    return f"no KV event for {silent_s:.0f} s while {tokens:,.0f} tokens were computed: {'; or '.join(causes)}"
