"""Pauses and steps a vLLM that carries our exporter, over the Unix socket that its door listens on.

One thread talks, a command and its reply at a time, and says every now and then that we are still here: a server whose
controller is silent runs on. Closing lets the server run on at once.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading

import msgspec

from kvtop.engine.control import AnyCommand, Reply, Resume
from kvtop.engine.wire import decode_message, encode, receive_frame, send_frame
from kvtop.exporter.door import Greeting
from kvtop.exporter.hold import LOST_SECONDS
from kvtop.exporter.private import control_path

ALIVE_SECONDS = LOST_SECONDS / 4
ANSWER_SECONDS = 5.0
CLOSE_SECONDS = 0.3


class Controller:
    """``send`` and ``poll`` from one thread, then ``close``. It connects with the first command.

    ``endpoint`` is where the exporter sends, ``session`` its own (see kvtop.exporter.wire.Speaker).
    """

    def __init__(self, endpoint: str, session: str) -> None:
        self._endpoint = endpoint
        self.session = session
        self._commands: queue.SimpleQueue[AnyCommand | None] = queue.SimpleQueue()
        self._replies: queue.SimpleQueue[Reply] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def send(self, command: AnyCommand) -> None:
        """Carry a command out, some time soon; its Reply comes with a later ``poll``."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._talk, name="controller", daemon=True)
            self._thread.start()
        self._commands.put(command)

    def poll(self) -> list[Reply]:
        """Replies that have come, oldest first."""
        replies = []
        while not self._replies.empty():
            replies.append(self._replies.get())
        return replies

    def close(self) -> None:
        """Let the server run on, and go. Closing twice is closing once."""
        if self._thread is not None:
            self._commands.put(Resume())
            self._commands.put(None)
            self._thread.join(CLOSE_SECONDS)

    def _talk(self) -> None:
        connection: socket.socket | None = None
        while True:
            try:
                command = self._commands.get(timeout=ALIVE_SECONDS)
            except queue.Empty:
                if connection is not None:
                    with contextlib.suppress(OSError):
                        send_frame(connection, b"")
                continue
            if command is None:
                break
            try:
                connection = connection or self._connect()
                self._replies.put(self._ask(connection, command))
            except (OSError, ValueError, msgspec.MsgspecError) as error:
                name = type(command).__name__.lower()
                self._replies.put(Reply(ticket=command.ticket, error=f"{name}: {_in_words(error)}"))
                if connection is not None:
                    connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(ANSWER_SECONDS)
            connection.connect(str(control_path(self._endpoint)))
            frame = receive_frame(connection)
            if frame is None or msgspec.msgpack.decode(frame, type=Greeting).session != self.session:
                raise ValueError("the socket for commands belongs to another server than the tables")
        except BaseException:
            connection.close()
            raise
        return connection

    def _ask(self, connection: socket.socket, command: AnyCommand) -> Reply:
        send_frame(connection, encode(command))
        frame = receive_frame(connection)
        reply = decode_message(frame) if frame is not None else None
        if not isinstance(reply, Reply):
            raise ValueError("the server did not answer")
        return reply


def _in_words(error: Exception) -> str:
    if isinstance(error, FileNotFoundError | ConnectionRefusedError):
        return "this server cannot be paused or stepped: only a vLLM on this machine can, started with KVTOP_CONTROL=1"
    return str(error)
