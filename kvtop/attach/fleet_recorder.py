"""Writes down what watched servers say, in frames of a second's worth; called from the threads that hear it.

A file that takes no more (its limit, a full disk) ends the recording and nothing else; ``failure`` then says why.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from zlib import crc32

import msgspec
import zstandard

from kvtop.attach import record_format as form
from kvtop.attach.kv_hearing import Heard
from kvtop.attach.kv_sources import KvSource
from kvtop.attach.server import Scrape
from kvtop.attach.targets import Target
from kvtop.sources.file_sink import FileSink
from kvtop.sources.frames import Frame, RecordingStopped

FLUSH_SECONDS = 1.0
FLUSH_RECORDS = 2_000


class FleetRecorder:
    """``page``, ``publisher`` and ``event`` note what came; ``close`` writes what is left."""

    def __init__(self, sink: FileSink, targets: Sequence[Target], wall: Callable[[], float] = time.time) -> None:
        self.failure = ""
        self._sink = sink
        self._wall = wall
        self._number = {target.base: number for number, target in enumerate(targets)}
        self._compressor = zstandard.ZstdCompressor(level=3)
        self._lock = threading.Lock()
        self._waiting: dict[int, list[msgspec.Struct]] = {form.PAGES: [], form.EVENTS: []}
        self._since_s = wall()
        self._written = 0
        now_s = wall()
        self._write(form.TARGETS, [form.Watched(target.name, target.shown) for target in targets], now_s)

    @property
    def sink(self) -> FileSink:
        return self._sink

    def page(self, scrape: Scrape) -> None:
        took_s = scrape.answered_s - scrape.asked_s
        self._note(
            form.PAGES,
            form.Page(
                self._wall(), took_s, self._number[scrape.target.base], scrape.status, scrape.page, scrape.failure
            ),
        )

    def publisher(self, target: Target, source: KvSource) -> None:
        self._note(form.EVENTS, form.Publisher(self._wall(), self._number[target.base], source))

    def event(self, target: Target, source: KvSource, heard: Heard) -> None:
        self._note(form.EVENTS, form.Event(self._wall(), self._number[target.base], source.rank, heard))

    def close(self) -> None:
        """Write what is left and end the file. Closing twice is closing once."""
        with self._lock:
            self._flush()
            self._sink.close()

    def _note(self, kind: int, record: msgspec.Struct) -> None:
        with self._lock:
            waiting = self._waiting[kind]
            waiting.append(record)
            if len(waiting) >= FLUSH_RECORDS or self._wall() - self._since_s >= FLUSH_SECONDS:
                self._flush()

    def _flush(self) -> None:
        now_s = self._wall()
        for kind, waiting in self._waiting.items():
            if waiting:
                self._write(kind, waiting, now_s)
                self._waiting[kind] = []
        self._since_s = now_s

    def _write(self, kind: int, records: Sequence[msgspec.Struct], now_s: float) -> None:
        if self.failure or self._sink.closed:
            return
        payload = self._compressor.compress(form.encode(records))
        first_s = getattr(records[0], "at_s", now_s) if records else now_s
        frame = Frame(
            kind=kind,
            session=0,
            length=len(payload),
            payload_crc=crc32(payload),
            first=self._written,
            count=len(records),
            first_step=0,
            last_step=0,
            first_s=first_s,
            last_s=getattr(records[-1], "at_s", now_s) if records else now_s,
        )
        self._written += len(records)
        try:
            self._sink.append(frame, payload)
        except RecordingStopped as stopped:
            self.failure = f"recording stopped: {stopped}"
            self._sink.close()
