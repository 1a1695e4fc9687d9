"""A recording on disk, opened for reading: its frames found by a scan, read when they are needed."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from kvtop.sources.frames import BATCHES, RecordingError, check_head, scan
from kvtop.sources.timeline import Timeline


class Recording:
    """``timeline`` gives any moment of it. ``lost_bytes`` at the end of the file are of no use: the writer was cut off.

    Raises:
        RecordingError: there is no such file, it is not a recording, or it holds no whole step; the message says which.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise RecordingError(f"{path}: cannot be read ({error.strerror})") from None
        try:
            check_head(self._file, str(path))
            entries, self.lost_bytes = scan(self._file)
            if not any(frame.kind == BATCHES for frame, _ in entries):
                raise RecordingError(f"{path}: is cut off before its first step")
        except BaseException:
            self._file.close()
            raise
        self._offsets = [(offset, frame.length) for frame, offset in entries]
        self.timeline = Timeline([frame for frame, _ in entries], self._payload, str(path))

    def _payload(self, index: int) -> bytes:
        offset, length = self._offsets[index]
        self._file.seek(offset)
        return self._file.read(length)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
