"""One publisher's messages, however they come: put in order, decoded, what cannot be understood counted.

Pure: the listener's thread brings messages from sockets, a replay brings those of a recording, with their times.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from kvtop.attach.kv_events import AllBlocksCleared, BadBatch, KvDecoder, KvEvent
from kvtop.attach.kv_sources import KvSource
from kvtop.attach.kv_stream import KvStream, Ordered, Restarted, Step

Applied = Restarted | tuple[int, list[KvEvent]]
"""A restart, or the events of one batch with their rank."""


class Heard(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One thing that came from a publisher, or was found out about it."""

    kind: Literal["live", "replayed", "end", "odd", "restart"]
    """A message of the subscription, one of a replay, a replay's end, what is no message, a restart somebody saw."""
    number: int = 0
    payload: bytes = b""
    why: str = ""


class KvHearing:
    """``hear`` gives what is to be applied, in order; ``tick`` gives up on a replay that takes too long."""

    def __init__(self, source: KvSource) -> None:
        self.source = source
        self.stream = KvStream(can_replay=source.replay_endpoint is not None)
        self.unknown: dict[str, int] = {}
        """Events of kinds that are not known here, by kind (untrusted)."""
        self.broken = 0
        """Messages that were no batch of events."""
        self._decoder = KvDecoder()

    def hear(self, heard: Heard, now_s: float) -> list[Applied]:
        """Take one thing over."""
        steps: list[Step] = []
        match heard.kind:
            case "live":
                steps = self.stream.take_live(heard.number, heard.payload, now_s)
            case "replayed":
                steps = self.stream.take_replayed(heard.number, heard.payload)
            case "end":
                steps = self.stream.end_replay()
            case "restart":
                steps = self.stream.restart(heard.why, now_s)
            case "odd":
                self.broken += 1
        return self._applied(steps)

    def tick(self, now_s: float) -> list[Applied]:
        return self._applied(self.stream.tick(now_s))

    def _applied(self, steps: list[Step]) -> list[Applied]:
        found = (self._decode(step) if isinstance(step, Ordered) else step for step in steps)
        return [applied for applied in found if applied is not None]

    def _decode(self, message: Ordered) -> Applied | None:
        try:
            batch = self._decoder.decode(message.payload)
        except BadBatch:
            self.broken += 1
            return None
        if any(type(event) is AllBlocksCleared for event in batch.events):
            self.stream.all_cleared()
        for kind, count in batch.unknown.items():
            if len(self.unknown) < 100 or kind in self.unknown:
                self.unknown[kind] = self.unknown.get(kind, 0) + count
        return (self.source.rank if batch.rank is None else batch.rank, batch.events)
