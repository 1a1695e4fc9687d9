"""Messages on a socket: four bytes of length (little-endian), then one MessagePack message.

Used by both ends of the pipe between a watcher and its engine process. A frame is whole or it is not there: an end in
the middle of one reads like an end before it.
"""

from __future__ import annotations

import socket
import struct

import msgspec

from kvtop.engine.control import AnyCommand, AnyMessage

_LENGTH = struct.Struct("<I")
MAX_FRAME_BYTES = 1 << 30

encode = msgspec.msgpack.Encoder().encode
decode_message = msgspec.msgpack.Decoder(AnyMessage).decode
decode_command = msgspec.msgpack.Decoder(AnyCommand).decode


def send_frame(connection: socket.socket, payload: bytes) -> None:
    """Send one frame; blocks until the other side takes it.

    Raises:
        ValueError: the payload is larger than MAX_FRAME_BYTES.
        OSError: the other side is gone.
    """
    if len(payload) > MAX_FRAME_BYTES:
        raise ValueError(
            f"a message of {len(payload)} bytes is too large to send, at most {MAX_FRAME_BYTES} are allowed"
        )
    connection.sendall(_LENGTH.pack(len(payload)))
    connection.sendall(payload)


def receive_frame(connection: socket.socket) -> bytes | None:
    """The next frame's payload; None when the other side is gone.

    Raises:
        ValueError: the length is larger than MAX_FRAME_BYTES, so the stream is not ours.
    """
    head = _receive(connection, _LENGTH.size)
    if head is None:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {length} bytes was announced, at most {MAX_FRAME_BYTES} are allowed")
    return _receive(connection, length)


def _receive(connection: socket.socket, count: int) -> bytes | None:
    buffer = bytearray(count)
    view = memoryview(buffer)
    while view:
        try:
            taken = connection.recv_into(view)
        except OSError:
            return None
        if not taken:
            return None
        view = view[taken:]
    return bytes(buffer)
