"""Turns batches into frames as they come: a group of batches a frame, and a keyframe every so often.

How often is counted in work, not in time: seeking applies at most KEYFRAME_WORK's worth of batches on top of a
keyframe, so it takes the same fraction of a second anywhere in a recording of any length. The recorder keeps a view of
its own for the keyframes. A group is written at the latest after FLUSH_SECONDS, and at once when the engine is paused
or has nothing left to do.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import Protocol
from zlib import crc32

import msgspec
import zstandard

from kvtop.engine.events import Advanced, Batch
from kvtop.sources.frames import BATCHES, KEYFRAME, Frame, RecordingError, RecordingStopped
from kvtop.view.keyframe import dump_view
from kvtop.view.pool_view import PoolView

FLUSH_WORK = 2_000
FLUSH_SECONDS = 1.0
KEYFRAME_WORK = 12_000
"""About 60 ms of applying."""
LEVEL = 3

encode_batches = msgspec.msgpack.Encoder().encode


class FrameSink(Protocol):
    """Takes finished frames. ``append`` raises RecordingStopped when no more go in."""

    def append(self, frame: Frame, payload: bytes) -> None: ...

    def close(self) -> None: ...


class Recorder:
    """``add`` may be called from another thread than the rest. A sink that takes no more (a limit, a full disk) is
    given up, the engine goes on; ``failure`` then says why in a line."""

    def __init__(self, sinks: Sequence[FrameSink]) -> None:
        self.failure = ""
        self._sinks = list(sinks)
        self._ended = False
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
            if self._ended:
                return
            try:
                self._add(batch)
            except Exception as error:  # whoever delivers batches must not fall with the recorder
                self.failure = f"recording stopped at step {batch.step:,}: {error!r}"
                self._end()

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
        quiet = self._view.paused or not self._view.sequences  # it may be long until the next batch
        if self._pending_work >= FLUSH_WORK or waited >= FLUSH_SECONDS or quiet:
            self._flush()
        if self._work_since_keyframe >= KEYFRAME_WORK:
            self._flush()
            self._write_keyframe()

    def attach(self, sink: FrameSink) -> None:
        """Record to one more sink from here on. What it gets begins with a keyframe, so that it stands by itself.

        Raises:
            RecordingError: this recorder has come to its end.
        """
        with self._lock:
            if self._ended:
                raise RecordingError(self.failure or "recording has ended")
            self._flush()
            self._sinks.append(sink)
            if self._view.info is not None:
                self._append(KEYFRAME, dump_view(self._view), [], [sink])

    def detach(self, sink: FrameSink) -> None:
        """Record to a sink no longer, and close it. One that was given up before is closed only."""
        with self._lock:
            self._flush()
            self._give_up(sink)

    def close(self) -> None:
        with self._lock:
            self._flush()
            self._end()

    def _end(self) -> None:
        self._ended = True
        for sink in list(self._sinks):
            self._give_up(sink)

    def _give_up(self, sink: FrameSink) -> None:
        if sink in self._sinks:
            self._sinks.remove(sink)
        with contextlib.suppress(OSError):
            sink.close()

    def _flush(self) -> None:
        if not self._pending:
            return
        batches, self._pending = self._pending, []
        self._append(BATCHES, encode_batches(batches), batches, self._sinks)
        self._recorded += len(batches)
        self._work_since_keyframe += self._pending_work
        self._pending_work = 0

    def _write_keyframe(self) -> None:
        self._append(KEYFRAME, dump_view(self._view), [], self._sinks)
        self._work_since_keyframe = 0

    def _append(self, kind: int, data: bytes, batches: list[Batch], sinks: Sequence[FrameSink]) -> None:
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
        for sink in list(sinks):
            try:
                sink.append(frame, payload)
            except RecordingStopped as stopped:
                self.failure = f"recording stopped at step {frame.first_step:,}: {stopped}"
                self._give_up(sink)


def work_of(batch: Batch) -> int:
    """What applying a batch costs, in events of average cost; a row of Advanced is about half of one."""
    rows = sum(len(event.seqs) for event in batch.events if isinstance(event, Advanced))
    return 1 + len(batch.events) + rows // 2
