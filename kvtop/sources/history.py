"""The recent past of a running engine, in memory, for stepping back: frames up to a bound, the oldest go first."""

from __future__ import annotations

import threading
from collections import deque

from kvtop.sources.frames import KEYFRAME, Frame
from kvtop.sources.timeline import Timeline

MAX_BYTES = 48 << 20


class History:
    """A FrameSink. Once the beginning was dropped it begins with a keyframe, so that all it holds can be shown."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._frames: deque[tuple[Frame, bytes]] = deque()
        self._bytes = 0
        self._max_bytes = max_bytes
        self._lock = threading.Lock()

    def append(self, frame: Frame, payload: bytes) -> None:
        exact = bytes(memoryview(payload))  # the compressor's own has room for the worst case behind it, uncounted
        with self._lock:
            self._frames.append((frame, exact))
            self._bytes += len(payload)
            if self._bytes > self._max_bytes and any(f.kind == KEYFRAME for f, _ in list(self._frames)[1:]):
                self._drop_first()
                while self._frames[0][0].kind != KEYFRAME:
                    self._drop_first()

    def _drop_first(self) -> None:
        _, payload = self._frames.popleft()
        self._bytes -= len(payload)

    def close(self) -> None:
        """What is held stays readable."""

    def timeline(self) -> Timeline:
        """What is held now; later frames do not change it."""
        with self._lock:
            held = list(self._frames)
        return Timeline([frame for frame, _ in held], lambda index: held[index][1], "history")
