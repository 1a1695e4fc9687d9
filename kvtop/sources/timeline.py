"""Any moment of something recorded, from its frames: a file's, or those held in memory.

A position counts batches: at position p the first p of them have happened. ``view_at`` starts from the last keyframe
before it and applies the rest, so every moment is a fraction of a second away and the same by whatever way one comes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from zlib import crc32

import msgspec
import zstandard

from kvtop.engine.events import Batch
from kvtop.sources.frames import BATCHES, KEYFRAME, Frame, RecordingError
from kvtop.view.keyframe import load_view
from kvtop.view.pool_view import PoolView

DECODED_FRAMES = 4
"""Groups of batches kept decoded: stepping to and fro stays within one or two."""

MAX_PAYLOAD_BYTES = 1 << 30
"""Unpacked. A keyframe of a million blocks has 60 MB."""

_decode_batches = msgspec.msgpack.Decoder(list[Batch]).decode


class Timeline:
    """``read(i)`` returns the payload of ``frames[i]``. ``first`` and ``end`` are the positions that can be shown."""

    def __init__(self, frames: Sequence[Frame], read: Callable[[int], bytes], name: str) -> None:
        self._frames = frames
        self._read = read
        self._name = name
        self._groups = [i for i, frame in enumerate(frames) if frame.kind == BATCHES]
        self._starts = [frames[i].first for i in self._groups]
        self._keyframes = [i for i, frame in enumerate(frames) if frame.kind == KEYFRAME]
        self._decoded: OrderedDict[int, list[Batch]] = OrderedDict()
        last = frames[self._groups[-1]] if self._groups else None
        self.end = last.first + last.count if last else 0
        self.first = frames[0].first if frames else 0

    def __len__(self) -> int:
        return self.end - self.first

    @property
    def steps(self) -> tuple[int, int]:
        """The first and last step there is; (0, 0) when there is none."""
        if not self._groups:
            return 0, 0
        return self._frames[self._groups[0]].first_step, self._frames[self._groups[-1]].last_step

    def batch(self, position: int) -> Batch:
        """The batch that leads from ``position`` to the next.

        Raises:
            IndexError: there is none.
            RecordingError: its frame is damaged.
        """
        if not self.first <= position < self.end:
            raise IndexError(f"position {position} is outside {self.first} to {self.end - 1}")
        group = self._group_of(position)
        return self._batches(group)[position - self._frames[group].first]

    def batches(self, position: int) -> Iterator[Batch]:
        """The batches from ``position`` on."""
        while position < self.end:
            group = self._group_of(position)
            batches = self._batches(group)[position - self._frames[group].first :]
            yield from batches
            position += len(batches)

    def session_at(self, position: int) -> int:
        """The session of the batch that leads from ``position`` to the next: another engine, another session."""
        return self._frames[self._group_of(position)].session

    @property
    def last_session_first(self) -> int:
        """The first position that shows the last engine, after its first batch; ``first`` when nothing is held."""
        if not self._groups:
            return self.first
        session = self._frames[self._groups[-1]].session
        return max(self.first, 1 + min(f.first for f in self._frames if f.kind == BATCHES and f.session == session))

    def position_after_step(self, step: int) -> int:
        """The last position at which no step later than ``step`` has happened, in the latest session that has it."""
        for group in reversed(self._groups):
            frame = self._frames[group]
            if frame.first_step <= step:
                taken = sum(1 for batch in self._batches(group) if batch.step <= step)
                return frame.first + taken
        return self.first

    def position_at_time(self, wall_s: float) -> int:
        """The last position at which nothing later than ``wall_s`` has happened."""
        for group in reversed(self._groups):
            frame = self._frames[group]
            if frame.first_s <= wall_s:
                return frame.first + sum(1 for batch in self._batches(group) if batch.wall_s <= wall_s)
        return self.first

    def view_at(self, position: int) -> PoolView:
        """The view at ``position``, which is brought into what can be shown.

        Raises:
            RecordingError: a frame on the way is damaged.
        """
        position = max(self.first, min(position, self.end))
        if position == self.first and not self._starts_with_keyframe:
            return PoolView()
        session = self.session_at(max(self.first, position - 1))
        view, reached = self._start(position, session)
        for batch in islice(self.batches(reached), position - reached):
            view.apply(batch)
        return view

    @property
    def _starts_with_keyframe(self) -> bool:
        return bool(self._frames) and self._frames[0].kind == KEYFRAME

    def _start(self, position: int, session: int) -> tuple[PoolView, int]:
        """The nearest moment of the session that stands by itself: its last keyframe up to there, or its start."""
        for index in reversed(self._keyframes):
            frame = self._frames[index]
            if frame.first <= position and frame.session == session:
                return self._load(index), frame.first
        groups = (self._frames[group] for group in self._groups)
        return PoolView(), next(frame.first for frame in groups if frame.session == session)

    def _load(self, index: int) -> PoolView:
        try:
            return load_view(self._payload(index))
        except (msgspec.MsgspecError, ValueError) as error:
            raise RecordingError(f"{self._name}: a keyframe cannot be read ({error})") from None

    def _group_of(self, position: int) -> int:
        return self._groups[bisect_right(self._starts, position) - 1]

    def _batches(self, group: int) -> list[Batch]:
        batches = self._decoded.get(group)
        if batches is None:
            try:
                batches = _decode_batches(self._payload(group))
            except msgspec.MsgspecError as error:
                raise RecordingError(f"{self._name}: some batches cannot be read ({error})") from None
            self._decoded[group] = batches
            if len(self._decoded) > DECODED_FRAMES:
                self._decoded.popitem(last=False)
        else:
            self._decoded.move_to_end(group)
        return batches

    def _payload(self, index: int) -> bytes:
        frame = self._frames[index]
        payload = self._read(index)
        if crc32(payload) != frame.payload_crc:
            raise RecordingError(
                f"{self._name}: is damaged at step {frame.first_step:,}; what comes before can be shown"
            )
        try:
            if zstandard.frame_content_size(payload) > MAX_PAYLOAD_BYTES:
                raise RecordingError(f"{self._name}: a frame claims to be over {MAX_PAYLOAD_BYTES >> 20} MiB large")
            return zstandard.ZstdDecompressor().decompress(payload)
        except zstandard.ZstdError as error:
            raise RecordingError(f"{self._name}: a frame cannot be unpacked ({error})") from None
