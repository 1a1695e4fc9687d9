"""A recording of watched servers: what came from them, as it came. Whatever is shown is worked out again from it.

    file   = head "KVSRV\\0" and a version, then frames as in an engine's recording (kvtop.sources.frames)
    kinds  = TARGETS: which servers;  PAGES: answers to scrapes;  EVENTS: KV events and where they come from
    payload = a MessagePack list of the structs below, packed by zstandard

Times are wall times in seconds. Pages hold metrics only; KV events hold token ids of prompts, so keep such a file as
you would keep the prompts.
"""

from __future__ import annotations

import msgspec

from kvtop.attach.kv_hearing import Heard
from kvtop.attach.kv_sources import KvSource
from kvtop.sources.frames import SERVERS_MAGIC

MAGIC = SERVERS_MAGIC
TARGETS = 3
PAGES = 4
EVENTS = 5


class Watched(msgspec.Struct, frozen=True, array_like=True):
    """One server, as it was named; its number is its place in the list."""

    name: str
    base: str


class Page(msgspec.Struct, frozen=True, array_like=True):
    """What one scrape brought: a page and its HTTP status, or a failure in words."""

    at_s: float
    took_s: float
    server: int
    status: int
    page: str
    failure: str


class Publisher(msgspec.Struct, frozen=True, array_like=True, tag="publisher"):
    """Where a rank of a server publishes its KV events; from here on somebody listened."""

    at_s: float
    server: int
    source: KvSource


class Event(msgspec.Struct, frozen=True, array_like=True, tag="event"):
    """Something that came from the publisher of a rank."""

    at_s: float
    server: int
    rank: int
    heard: Heard


encode = msgspec.msgpack.Encoder().encode
decode_targets = msgspec.msgpack.Decoder(list[Watched]).decode
decode_pages = msgspec.msgpack.Decoder(list[Page]).decode
decode_events = msgspec.msgpack.Decoder(list[Publisher | Event]).decode
