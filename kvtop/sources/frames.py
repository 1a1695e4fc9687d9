"""The frames a recording is made of, on disk and in memory.

    file   = head, then frames, nothing else
    head   = "KVREC\\0" and the format version (uint16)
    frame  = header (fixed size, its own checksum), then a payload (zstandard; its checksum stands in the header)
    kinds  = BATCHES: some consecutive batches;  KEYFRAME: the whole view after all batches before it

There is no footer and no index on disk: headers tell enough to skip payloads, so a scan of them is the index. A file
that is cut off, at whatever byte, is a whole file up to its last whole frame. All numbers are little-endian.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from kvtop.failure import Failure

MAGIC = b"KVREC\0"
SERVERS_MAGIC = b"KVSRV\0"
"""Of recordings of watched servers (kvtop.attach.record_format)."""
VERSION = 1
_HEAD = struct.Struct("<6sH")
_FRAME = struct.Struct("<BxHIIIQQQdd")
_CHECK = struct.Struct("<I")
FRAME_HEADER_BYTES = _FRAME.size + _CHECK.size
BATCHES = 1
KEYFRAME = 2


class RecordingError(Failure):
    """A file cannot be read as a recording, or one cannot be written."""


class RecordingStopped(Exception):
    """A recording takes no more frames; what it holds is whole. The message says why."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame's header. Batches are counted over the whole recording, from 0."""

    kind: int
    session: int
    """Rises when a new engine starts in the same recording: its state owes nothing to what came before."""
    length: int
    """Bytes of the payload."""
    payload_crc: int
    first: int
    """Number of batches before this frame."""
    count: int
    """Batches in it; 0 for a keyframe."""
    first_step: int
    last_step: int
    first_s: float
    last_s: float
    """Wall time of the first and last batch."""

    def pack(self) -> bytes:
        packed = _FRAME.pack(
            *(self.kind, self.session, self.length, self.payload_crc, self.count, self.first),
            *(self.first_step, self.last_step, self.first_s, self.last_s),
        )
        return packed + _CHECK.pack(crc32(packed))


def unpack_frame(data: bytes) -> Frame | None:
    """The header in ``data``; None when it is cut off or damaged."""
    if len(data) < FRAME_HEADER_BYTES:
        return None
    packed, check = data[: _FRAME.size], data[_FRAME.size :]
    if _CHECK.unpack(check)[0] != crc32(packed):
        return None
    kind, session, length, payload_crc, count, first, first_step, last_step, first_s, last_s = _FRAME.unpack(packed)
    return Frame(kind, session, length, payload_crc, first, count, first_step, last_step, first_s, last_s)


def head(magic: bytes = MAGIC) -> bytes:
    """The first bytes of a file; ``magic`` says what kind of recording it is."""
    return _HEAD.pack(magic, VERSION)


def begins_with(path: Path, magic: bytes) -> bool:
    """Whether a file is of that kind, as far as its first bytes tell."""
    try:
        with path.open("rb") as file:
            return file.read(len(magic)) == magic
    except OSError:
        return False


def check_head(file: BinaryIO, name: str, magic: bytes = MAGIC) -> None:
    """Read a file's head.

    Raises:
        RecordingError: it is empty, not a recording, or of a version that is not known here.
    """
    data = file.read(_HEAD.size)
    if not data:
        raise RecordingError(f"{name}: is empty, nothing was recorded")
    if len(data) < _HEAD.size and head(magic).startswith(data):
        raise RecordingError(f"{name}: is cut off before its first step")
    if data[: len(magic)] != magic and data[: len(SERVERS_MAGIC)] == SERVERS_MAGIC:
        raise RecordingError(f"{name}: is a recording of watched servers, not of an engine; kvtop replay plays it")
    if data[: len(magic)] != magic:
        raise RecordingError(f"{name}: is not a kvtop recording (those begin with KVREC)")
    version = _HEAD.unpack(data)[1]
    if version > VERSION:
        raise RecordingError(f"{name}: has format version {version}, this kvtop reads up to {VERSION}; use a newer one")


def scan(file: BinaryIO) -> tuple[list[tuple[Frame, int]], int]:
    """The whole frames of a file whose head was read, each with the offset of its payload, and how many bytes behind
    the last of them are of no use (a frame that was cut off, or damage)."""
    size = file.seek(0, os.SEEK_END)
    offset = _HEAD.size
    frames: list[tuple[Frame, int]] = []
    while True:
        file.seek(offset)
        frame = unpack_frame(file.read(FRAME_HEADER_BYTES))
        payload = offset + FRAME_HEADER_BYTES
        if frame is None or payload + frame.length > size:
            return frames, size - offset
        frames.append((frame, payload))
        offset = payload + frame.length
