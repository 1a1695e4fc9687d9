"""A recording on its way to disk: a new file that only ever grows by whole frames, up to a limit if there is one."""

from __future__ import annotations

from pathlib import Path

from kvtop.sources.frames import MAGIC, Frame, RecordingError, RecordingStopped, head
from kvtop.view.words import size


class FileSink:
    """``size_bytes`` is what the file has grown to. The frame that would pass ``limit_bytes`` is not written and ends
    the file, which replays up to there.

    Raises:
        RecordingError: the file exists already, or cannot be made.
    """

    def __init__(self, path: Path, limit_bytes: int | None = None, magic: bytes = MAGIC) -> None:
        self.path = path
        self.limit_bytes = limit_bytes
        self.last_step: int | None = None
        """The last step in the file; None while there is none."""
        try:
            self._file = path.open("xb")
            self._file.write(head(magic))
            self._file.flush()
        except FileExistsError:
            raise RecordingError(f"{path}: exists already; choose another name, or remove it") from None
        except OSError as error:
            raise RecordingError(f"{path}: cannot be written ({error.strerror})") from None
        self.size_bytes = len(head(magic))

    def append(self, frame: Frame, payload: bytes) -> None:
        """Write a frame.

        Raises:
            RecordingStopped: it would pass the limit, or cannot be written.
        """
        whole = frame.pack() + payload
        if self.limit_bytes is not None and self.size_bytes + len(whole) > self.limit_bytes:
            raise RecordingStopped(f"{self.path} has reached its limit of {size(self.limit_bytes)}")
        try:
            self._file.write(whole)
            self._file.flush()
        except OSError as error:
            raise RecordingStopped(f"{self.path}: {error.strerror}") from None
        self.size_bytes += len(whole)
        self.last_step = frame.last_step

    @property
    def closed(self) -> bool:
        """It takes no more."""
        return self._file.closed

    def close(self) -> None:
        self._file.close()
