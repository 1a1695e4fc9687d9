"""KV events as vLLM and SGLang publish them, decoded: stored, removed, all cleared.

Two encodings exist: maps with a ``type`` (vLLM 0.32, SGLang 0.5.23) and arrays with the tag first (older ones). A batch
is decoded in one go in the form that fitted last; only one that does not fit is taken apart event by event, and what is
unknown or broken in it is counted, so that it ends nothing. Token ids are skipped, never decoded: hashes say enough,
and what people wrote stays where it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

Hash = int | bytes
"""A block's content hash, chained from its parent's: a 64-bit number (SGLang's may be negative), or 32 bytes."""

DEFAULT_MEDIUM = "GPU"


class BlockStored(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="BlockStored"):
    """Full blocks entered the prefix index, or were reported again for a request that hit them."""

    block_hashes: list[Hash]
    parent_block_hash: Hash | None = None
    block_size: int = 0
    medium: str | None = None
    lora_name: str | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    locality: str | None = None


class BlockRemoved(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="BlockRemoved"):
    """Blocks left the prefix index: their memory was handed out again."""

    block_hashes: list[Hash]
    medium: str | None = None
    group_idx: int | None = None
    locality: str | None = None


class AllBlocksCleared(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="AllBlocksCleared"):
    """The whole prefix index was emptied."""


KvEvent = BlockStored | BlockRemoved | AllBlocksCleared


class _StoredArray(msgspec.Struct, frozen=True, array_like=True, tag="BlockStored"):
    block_hashes: list[Hash]
    parent_block_hash: Hash | None
    token_ids: msgspec.Raw
    block_size: int
    lora_id: int | None = None
    medium: str | None = None
    lora_name: str | None = None
    extra_keys: msgspec.Raw = msgspec.Raw(b"\xc0")
    group_idx: int | None = None


class _RemovedArray(msgspec.Struct, frozen=True, array_like=True, tag="BlockRemoved"):
    block_hashes: list[Hash]
    medium: str | None = None
    group_idx: int | None = None


class _ClearedArray(msgspec.Struct, frozen=True, array_like=True, tag="AllBlocksCleared"):
    pass


class _Maps(msgspec.Struct, frozen=True, array_like=True):
    """The batch around events; its last field is the data-parallel rank (SGLang: of attention)."""

    ts: float
    events: list[KvEvent]
    rank: int | None = None


class _Arrays(msgspec.Struct, frozen=True, array_like=True):
    ts: float
    events: list[_StoredArray | _RemovedArray | _ClearedArray]
    rank: int | None = None


class _Any(msgspec.Struct, frozen=True, array_like=True):
    ts: float
    events: list[Any]
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class KvBatch:
    """One message, decoded."""

    ts: float
    events: list[KvEvent]
    rank: int | None
    """The data-parallel rank it names; None: only the socket tells."""
    unknown: dict[str, int] = field(default_factory=dict)
    """Events that were skipped: kind → how many."""


class BadBatch(ValueError):
    """A payload is no batch of events at all; the message says how it fails."""


class KvDecoder:
    """Decodes the messages of one publisher."""

    def __init__(self) -> None:
        self._maps = msgspec.msgpack.Decoder(_Maps).decode
        self._arrays = msgspec.msgpack.Decoder(_Arrays).decode
        self._any = msgspec.msgpack.Decoder(_Any).decode
        self._maps_first = True

    def decode(self, payload: bytes) -> KvBatch:
        """A payload's events.

        Raises:
            BadBatch: it is not a batch, or not MessagePack.
        """
        for maps in (self._maps_first, not self._maps_first):
            try:
                batch = self._decode_maps(payload) if maps else self._decode_arrays(payload)
            except msgspec.MsgspecError:
                continue
            self._maps_first = maps
            return batch
        return self._take_apart(payload)

    def _decode_maps(self, payload: bytes) -> KvBatch:
        batch = self._maps(payload)
        return KvBatch(batch.ts, batch.events, batch.rank)

    def _decode_arrays(self, payload: bytes) -> KvBatch:
        batch = self._arrays(payload)
        return KvBatch(batch.ts, [_as_map(event) for event in batch.events], batch.rank)

    def _take_apart(self, payload: bytes) -> KvBatch:
        """Event by event: what cannot be read is counted and skipped."""
        try:
            batch = self._any(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadBatch(f"not a batch of KV events: {error}") from None
        events: list[KvEvent] = []
        unknown: dict[str, int] = {}
        for raw in batch.events:
            try:
                events.append(_convert(raw))
            except msgspec.MsgspecError:
                kind = _kind(raw)
                unknown[kind] = unknown.get(kind, 0) + 1
        return KvBatch(batch.ts, events, batch.rank, unknown)


def _convert(raw: Any) -> KvEvent:
    if isinstance(raw, dict):
        return msgspec.convert(raw, KvEvent)
    return _as_map(msgspec.convert(raw, _StoredArray | _RemovedArray | _ClearedArray))


def _as_map(event: _StoredArray | _RemovedArray | _ClearedArray) -> KvEvent:
    if isinstance(event, _StoredArray):
        return BlockStored(
            block_hashes=event.block_hashes,
            parent_block_hash=event.parent_block_hash,
            block_size=event.block_size,
            medium=event.medium,
            lora_name=event.lora_name,
            group_idx=event.group_idx,
        )
    if isinstance(event, _RemovedArray):
        return BlockRemoved(event.block_hashes, event.medium, event.group_idx)
    return AllBlocksCleared()


def _kind(raw: Any) -> str:
    """What an event that cannot be read calls itself. Untrusted."""
    tag = raw.get("type") if isinstance(raw, dict) else raw[0] if isinstance(raw, list) and raw else None
    if not isinstance(tag, str):
        return "without a type"
    known = tag in ("BlockStored", "BlockRemoved", "AllBlocksCleared")
    return f"broken {tag}" if known else tag[:60]
