"""docs/recording.md tells the format well enough to read a file by: done here with nothing of our own readers."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from zlib import crc32

import msgspec
import zstandard

from tests.commands.test_events import record
from tests.sources.traffic import batches

DOCUMENT = Path(__file__).parents[2] / "docs" / "recording.md"
TYPES = {"uint8": "<B", "uint16": "<H", "uint32": "<I", "uint64": "<Q", "float64": "<d"}


def documented_fields() -> list[tuple[int, str]]:
    """Offset and type of every field of a frame's header, from the table."""
    rows = re.findall(r"^(?:header)?\s+(\d+)\s+(u?int\d+|float64)\s", DOCUMENT.read_text(), re.MULTILINE)
    return [(int(offset), TYPES[name]) for offset, name in rows]


def test_a_recording_can_be_read_by_what_the_document_says(tmp_path: Path) -> None:
    made = batches(60)
    data = record(tmp_path / "a.kvrec", made).read_bytes()
    fields = documented_fields()
    assert len(fields) == 11
    assert data[:6] == b"KVREC\0" and data[6:8] == b"\1\0"
    offset, seen = 8, 0
    while offset < len(data):
        header = data[offset : offset + 60]
        kind, session, length, payload_crc, count, first, first_step, last_step, first_s, last_s, check = (
            struct.unpack_from(form, header, at)[0] for at, form in fields
        )
        payload = data[offset + 60 : offset + 60 + length]
        assert (crc32(header[:56]), crc32(payload)) == (check, payload_crc)
        assert (session, first) == (0, seen)
        content = msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(payload))
        if kind == 1:
            assert [batch["number"] for batch in content] == [batch.number for batch in made[seen : seen + count]]
            assert (content[0]["step"], content[-1]["step"]) == (first_step, last_step)
            assert (content[0]["wall_s"], content[-1]["wall_s"]) == (first_s, last_s)
            seen += count
        offset += 60 + length
    assert (offset, seen) == (len(data), 60)
