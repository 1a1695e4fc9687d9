"""The recordings of a real vLLM 0.32 server (tests/fixtures/vllm): events, pages of metrics, and what was true."""

from __future__ import annotations

import base64
import functools
import gzip
import json
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

FOLDER = Path(__file__).parent.parent / "fixtures" / "vllm"
SCENARIOS = ("shared", "restart", "tight")


@dataclass(frozen=True)
class Page:
    """One scrape; ``body`` empty where the server was down."""

    t: float
    body: str


@dataclass(frozen=True)
class Message:
    """One ZMQ message of KV events."""

    t: float
    topic: bytes
    number: int
    payload: bytes

    @property
    def frames(self) -> list[bytes]:
        return [self.topic, self.number.to_bytes(8, "big"), self.payload]


@functools.cache
def pages(scenario: str) -> tuple[Page, ...]:
    with lzma.open(FOLDER / scenario / "metrics.jsonl.xz", "rt") as file:
        rows = [json.loads(line) for line in file]
    return tuple(Page(row["t"], row.get("body", "")) for row in rows)


@functools.cache
def messages(scenario: str) -> tuple[Message, ...]:
    with lzma.open(FOLDER / scenario / "kv_events.jsonl.xz", "rt") as file:
        rows = [json.loads(line) for line in file]
    result = []
    for row in rows:
        topic, number, payload = (base64.b64decode(frame) for frame in row["f"])
        result.append(Message(row["t"], topic, int.from_bytes(number, "big"), payload))
    return tuple(result)


@functools.cache
def truth(scenario: str) -> tuple[dict[str, Any], ...]:
    """What really was after each schedule and each update, in order."""
    with gzip.open(FOLDER / scenario / "truth.jsonl.gz", "rt") as file:
        return tuple(msgspec.msgpack.decode(base64.b64decode(json.loads(line)["m"])) for line in file)


def summary(scenario: str, part: str = "") -> dict[str, float]:
    """The server's own counters at the end, by short name (``prefix_cache_hits_total``)."""
    told = json.loads((FOLDER / scenario / f"summary{part}.json").read_text())["final_metrics"]
    return {name.removeprefix("vllm:").partition("{")[0]: value for name, value in told.items()}
