"""An engine of our own, in a process of its own: started, listened to, commanded and buried.

The process is started over a socket pair, so there is no name that could be stale or taken; it ends when our end
closes, however we end. One thread reads what it says into a bounded buffer, one writes commands, one keeps the end of
what it prints (never on the screen: for the report when it dies).
"""

from __future__ import annotations

import contextlib
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from kvtop.engine.control import AnyCommand, BatchMessage, Quit, Reply, Status
from kvtop.engine.events import Batch
from kvtop.engine.wire import decode_message, encode, receive_frame, send_frame
from kvtop.settings import EngineSettings
from kvtop.sources.source import Message

ENGINE_COMMAND = (sys.executable, "-m", "kvtop.engine.process")
SIMULATOR_COMMAND = (sys.executable, "-m", "kvtop.engine.simulator")
MAX_BATCHES = 2_000
MAX_BUFFER_BYTES = 64 << 20
MAX_PRINTED_BYTES = 32 << 10
CLOSE_SECONDS = 0.3
"""How long a closed engine may take to end by itself before it is killed. It has nothing to save."""


class MessageBuffer:
    """Messages that wait for ``poll``: batches up to a bound, everything else always."""

    def __init__(self) -> None:
        self._messages: deque[tuple[Message, int]] = deque()
        self._batches = 0
        self._batch_bytes = 0
        self._lock = threading.Lock()

    def put(self, message: Message, size: int) -> None:
        """Add a message of ``size`` bytes. When batches find no room, those that wait are dropped: the reader needs a
        snapshot in any case, and the newest is the one worth having."""
        with self._lock:
            if isinstance(message, BatchMessage):
                if self._batches >= MAX_BATCHES or self._batch_bytes + size > MAX_BUFFER_BYTES:
                    self._messages = deque(m for m in self._messages if not isinstance(m[0], BatchMessage))
                    self._batches = self._batch_bytes = 0
                self._batches += 1
                self._batch_bytes += size
            self._messages.append((message, size))

    def take(self, most: int) -> list[Message]:
        with self._lock:
            taken = [self._messages.popleft() for _ in range(min(most, len(self._messages)))]
            for message, size in taken:
                if isinstance(message, BatchMessage):
                    self._batches -= 1
                    self._batch_bytes -= size
        return [message for message, _ in taken]


class EngineProcess:
    """One run of the process, from its start to its end."""

    def __init__(
        self,
        command: Sequence[str],
        settings: EngineSettings,
        on_batch: Callable[[Batch], None] | None,
        on_word: Callable[[Reply | Status], None] | None,
    ) -> None:
        self.messages = MessageBuffer()
        self._on_batch = on_batch
        self._on_word = on_word
        self._told_end = False
        self._closed = False
        self._printed = bytearray()
        self._connection, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C in the terminal is for the app
            )
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._outgoing.put(encode(settings))
        self._printing = self._start_thread("engine-output", self._keep_printed)
        self._start_thread("engine-writer", self._write)
        self._start_thread("engine-reader", self._read)

    def _start_thread(self, name: str, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        return thread

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def send(self, payload: bytes) -> None:
        self._outgoing.put(payload)

    def close(self) -> None:
        """End the process; returns when it is gone."""
        self._closed = True
        self._outgoing.put(encode(Quit()))
        self._outgoing.put(None)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_SECONDS)
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        if self.alive:
            self._process.kill()
        self._process.wait()
        self._connection.close()

    def _write(self) -> None:
        while (payload := self._outgoing.get()) is not None:
            try:
                send_frame(self._connection, payload)
            except OSError:  # it is gone; the reader tells
                return

    def _read(self) -> None:
        while (frame := receive_frame(self._connection)) is not None:
            message = decode_message(frame)
            if isinstance(message, BatchMessage):
                if self._on_batch is not None:
                    self._on_batch(message.batch)
            else:
                if isinstance(message, Status):
                    self._told_end = message.state in ("failed", "stopped")
                if self._on_word is not None:
                    self._on_word(message)
            self.messages.put(message, len(frame))
        if not self._told_end and not self._closed:
            obituary = self._obituary()
            if self._on_word is not None:
                self._on_word(obituary)
            self.messages.put(obituary, 0)

    def _obituary(self) -> Status:
        """What is known of an engine process that ended without a word."""
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            return Status(state="failed", detail="the engine process closed its connection and hangs")
        self._printing.join(1)
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
        return Status(state="failed", detail=f"the engine process {how}", traceback=self.printed())

    def printed(self) -> str:
        """The end of what the process printed. Untrusted."""
        return self._printed.decode("utf-8", "replace")

    def _keep_printed(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            while chunk := stream.read1(4096):  # type: ignore[attr-defined]
                self._printed += chunk
                del self._printed[:-MAX_PRINTED_BYTES]


class EmbeddedSource:
    """``on_batch`` is called from the reading thread with every batch, ``on_word`` with every reply and status (a
    recorder listens there, and a server). ``send`` may be called from any thread."""

    def __init__(
        self,
        settings: EngineSettings,
        command: Sequence[str] = ENGINE_COMMAND,
        on_batch: Callable[[Batch], None] | None = None,
        on_word: Callable[[Reply | Status], None] | None = None,
    ) -> None:
        self._settings = settings
        self._command = command
        self._on_batch = on_batch
        self._on_word = on_word
        self._engine: EngineProcess | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the engine; None while none was started."""
        return self._engine.pid if self._engine else None

    @property
    def alive(self) -> bool:
        """Its process runs."""
        return self._engine is not None and self._engine.alive

    def start(self) -> None:
        self._engine = EngineProcess(self._command, self._settings, self._on_batch, self._on_word)

    def poll(self, max_messages: int = 1000) -> list[Message]:
        return self._engine.messages.take(max_messages) if self._engine else []

    def send(self, command: AnyCommand) -> None:
        try:
            payload = encode(command)
        except (UnicodeEncodeError, msgspec.MsgspecError) as error:
            raise ValueError(
                f"{type(command).__name__.lower()}: holds text that is not valid Unicode ({error})"
            ) from None
        if self._engine:
            self._engine.send(payload)

    def restart(self) -> None:
        self.close()
        self.start()

    def replace(self, settings: EngineSettings) -> None:
        """Another engine, with these settings, in place of the one that runs."""
        self._settings = settings
        self.restart()

    def close(self) -> None:
        engine, self._engine = self._engine, None
        if engine:
            engine.close()
