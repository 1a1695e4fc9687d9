"""Recording to a file while one watches: begun and ended with a key, its size shown as it grows, its end told."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from kvtop.sources.file_sink import FileSink
from kvtop.sources.recorder import Recorder
from kvtop.view.words import size


class RecordingSwitch:
    """``recorder`` hears every batch already; ``sink`` is the file it writes to from the start, if one was asked for.
    Files that are begun here go into ``folder``, named after the time."""

    def __init__(
        self,
        recorder: Recorder,
        folder: Path,
        sink: FileSink | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._recorder = recorder
        self._folder = folder
        self._sink = sink
        self._clock = clock

    @property
    def size_bytes(self) -> int | None:
        """What the file has grown to; None while none is written."""
        return self._sink.size_bytes if self._sink is not None else None

    def toggle(self) -> str:
        """Begin a file, or end the one that is written; what was done, in words. Raises RecordingError."""
        if self._sink is not None:
            sink, self._sink = self._sink, None
            self._recorder.detach(sink)
            return f"recorded to {sink.path}, {size(sink.size_bytes)}"
        name = time.strftime("kvtop-%Y%m%d-%H%M%S.kvrec", time.localtime(self._clock()))
        sink = FileSink(self._folder / name)
        self._recorder.attach(sink)
        self._sink = sink
        return f"recording to {sink.path}"

    def take_end(self) -> str:
        """Why a file that was written has ended by itself, once; empty: none has."""
        if self._sink is None or not self._sink.closed:
            return ""
        self._sink = None
        return self._recorder.failure
