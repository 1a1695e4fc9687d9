"""Turns batches into frames as they come: a group of batches a frame, and a keyframe every so often.

How often is counted in work, not in time: seeking applies at most KEYFRAME_WORK's worth of batches on top of a
keyframe, so it takes the same fraction of a second anywhere in a recording of any length. The recorder keeps a view of
its own for the keyframes. A group is written at the latest after FLUSH_SECONDS, and at once while the engine is paused.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol
from zlib import crc32

import msgspec
import zstandard

from kvtop.engine.events import Advanced, Batch
from kvtop.sources.frames import BATCHES, KEYFRAME, Frame, RecordingError, head
from kvtop.view.keyframe import dump_view
from kvtop.view.pool_view import PoolView

FLUSH_WORK = 2_000
FLUSH_SECONDS = 1.0
KEYFRAME_WORK = 12_000
"""About 60 ms of applying."""
LEVEL = 3

encode_batches = msgspec.msgpack.Encoder().encode


class FrameSink(Protocol):
    """Takes finished frames."""

    def append(self, frame: Frame, payload: bytes) -> None: ...

    def close(self) -> None: ...


class FileSink:
    """A new file that only ever grows by whole frames.

    Raises:
        RecordingError: the file exists already, or cannot be made.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("xb")
            self._file.write(head())
            self._file.flush()
        except FileExistsError:
            raise RecordingError(f"{path}: exists already; choose another name, or remove it") from None
        except OSError as error:
            raise RecordingError(f"{path}: cannot be written ({error.strerror})") from None

    def append(self, frame: Frame, payload: bytes) -> None:
        self._file.write(frame.pack() + payload)
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class Recorder:
    """``add`` may be called from another thread than ``close``. A sink that fails (a full disk) is given up, the engine
    goes on; ``failure`` then says why in a line."""

    def __init__(self, sinks: Sequence[FrameSink]) -> None:
        self.failure = ""
        self._sinks = list(sinks)
        self._lock = threading.Lock()
        self._compressor = zstandard.ZstdCompressor(level=LEVEL)
        self._view = PoolView()
        self._session = 0
        self._recorded = 0
        self._pending: list[Batch] = []
        self._pending_work = 0
        self._work_since_keyframe = 0

    def add(self, batch: Batch) -> None:
        with self._lock:
            if not self._sinks:
                return
            try:
                self._add(batch)
            except Exception as error:  # whoever delivers batches must not fall with the recorder
                self.failure = f"recording stopped at step {batch.step:,}: {error!r}"
                self._close_sinks()

    def _add(self, batch: Batch) -> None:
        if batch.number <= self._view.number:  # a new engine counts from 1 again
            self._flush()
            self._session += 1
            self._view = PoolView()
            self._work_since_keyframe = 0
        self._view.apply(batch)
        self._pending.append(batch)
        self._pending_work += work_of(batch)
        waited = batch.wall_s - self._pending[0].wall_s
        if self._pending_work >= FLUSH_WORK or waited >= FLUSH_SECONDS or self._view.paused:
            self._flush()
        if self._work_since_keyframe >= KEYFRAME_WORK:
            self._flush()
            self._write_keyframe()

    def close(self) -> None:
        with self._lock:
            self._flush()
            self._close_sinks()

    def _close_sinks(self) -> None:
        for sink in self._sinks:
            with contextlib.suppress(OSError):
                sink.close()
        self._sinks = []

    def _flush(self) -> None:
        if not self._pending:
            return
        batches, self._pending = self._pending, []
        self._append(BATCHES, encode_batches(batches), batches)
        self._recorded += len(batches)
        self._work_since_keyframe += self._pending_work
        self._pending_work = 0

    def _write_keyframe(self) -> None:
        self._append(KEYFRAME, dump_view(self._view), [])
        self._work_since_keyframe = 0

    def _append(self, kind: int, data: bytes, batches: list[Batch]) -> None:
        payload = self._compressor.compress(data)
        frame = Frame(
            kind=kind,
            session=self._session,
            length=len(payload),
            payload_crc=crc32(payload),
            first=self._recorded,
            count=len(batches),
            first_step=batches[0].step if batches else self._view.step,
            last_step=batches[-1].step if batches else self._view.step,
            first_s=batches[0].wall_s if batches else self._view.wall_s,
            last_s=batches[-1].wall_s if batches else self._view.wall_s,
        )
        for sink in list(self._sinks):
            try:
                sink.append(frame, payload)
            except OSError as error:
                self.failure = f"recording stopped: {error.strerror}"
                self._sinks.remove(sink)


def work_of(batch: Batch) -> int:
    """What applying a batch costs, in events of average cost; a row of Advanced is about half of one."""
    rows = sum(len(event.seqs) for event in batch.events if isinstance(event, Advanced))
    return 1 + len(batch.events) + rows // 2
