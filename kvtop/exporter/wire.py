"""What the exporter puts on its socket: a topic, who speaks, and one batch; all MessagePack.

Whoever subscribes, or subscribes again, is sent the whole state as a batch with a snapshot; what follows are
differences with rising numbers. A number that is missing is asked for by subscribing again. While there is nothing to
tell, an empty payload a second says that the server lives.
"""

from __future__ import annotations

import msgspec

from kvtop.engine.events import Batch

TOPIC = b"kvtop"
VERSION = 1
DEFAULT_PORT = 5580
"""Of rank 0; rank n has the n-th port after it."""


class Speaker(msgspec.Struct, frozen=True, kw_only=True):
    """Who sends a batch."""

    version: int
    """Of this form."""
    session: str
    """Another one for each start of the exporter: numbers begin anew."""
    rank: int
    """Data-parallel rank."""
    server: str
    """For people: ``vLLM 0.32.0``."""
    dropped: int
    """Batches that found no room and were never sent."""
    spent_s: float
    """Seconds that the exporter has taken from the server's scheduler so far."""


encode_batch = msgspec.msgpack.Encoder().encode
encode_speaker = msgspec.msgpack.Encoder().encode
decode_batch = msgspec.msgpack.Decoder(Batch).decode
decode_speaker = msgspec.msgpack.Decoder(Speaker).decode
