"""Watched servers out of a recording: the same figures at the same times, played, paused, wound to and fro.

What was heard is heard again, in order; every figure is worked out as it was live. Winding back begins anew: events
from the start, since what is cached is the sum of them all, pages from a little more than a window before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from zlib import crc32

import msgspec
import zstandard

from kvtop.attach import record_format as form
from kvtop.attach.fleet import Place, WatchedServer
from kvtop.attach.history import WINDOW_SECONDS
from kvtop.attach.kv_hearing import Applied, KvHearing
from kvtop.attach.kv_sources import KvSource
from kvtop.attach.kv_watch import KvWatch
from kvtop.attach.server import Scrape, ServerWatch
from kvtop.attach.targets import parse_target
from kvtop.sources.frames import Frame, RecordingError, check_head, scan

Record = form.Page | form.Publisher | form.Event
WARM_UP_SECONDS = WINDOW_SECONDS + 15.0


class _ToldListener(KvHearing):
    """A publisher out of the recording."""

    def __init__(self, source: KvSource, clock: Callable[[], float]) -> None:
        super().__init__(source)
        self.started_s = clock()
        self._clock = clock
        self._arrived: list[Applied] = []

    def tell(self, event: form.Event) -> None:
        self._arrived += [*self.tick(event.at_s), *self.hear(event.heard, event.at_s)]

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def close(self) -> None: ...

    def poll(self, most: int = 1_000) -> list[Applied]:
        taken, self._arrived = [*self._arrived, *self.tick(self._clock())], []
        return taken

    def server_restarted(self, why: str) -> None:
        """A restart that somebody saw is in the recording itself."""

    def silent_s(self) -> float:
        return self._clock() - (self.stream.last_live_s or self.started_s)


class ReplayedFleet:
    """Looks to its readers like a Fleet, and can be paused and wound.

    Raises:
        RecordingError: the file cannot be read, or is no recording of servers.
    """

    has_looked_for_tables = True

    def __init__(self, path: Path, speed: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self.speed = speed
        self.playing = True
        self.failure = ""
        """Why it ends before its end, where it is damaged."""
        self._clock = clock
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise RecordingError(f"{path}: cannot be read ({error.strerror})") from None
        check_head(self._file, str(path), form.MAGIC)
        entries, self.lost_bytes = scan(self._file)
        self._entries: list[tuple[Frame, int]] = entries
        heads = [entry for entry in entries if entry[0].kind == form.TARGETS]
        if not heads or not any(frame.kind == form.PAGES for frame, _ in entries):
            raise RecordingError(f"{path}: is cut off before its first page")
        watched = form.decode_targets(self._payload(*heads[0]))
        self._targets = [parse_target(f"{one.name} = {one.base}") for one in watched]
        self.first_s = heads[0][0].first_s
        self.end_s = max(frame.last_s for frame, _ in entries)
        self._at_s = self.first_s
        self._real_s = clock()
        self.servers: list[WatchedServer] = []
        self._begin(self.first_s)

    # --- what readers of a fleet ask ----------------------------------------------------------------------------------

    @property
    def watches(self) -> list[ServerWatch]:
        return [server.metrics for server in self.servers]

    def now_s(self) -> float:
        """The recorded wall time that is shown."""
        return self._at_s

    def places(self) -> list[Place]:
        return [
            Place(number, rank) for number, server in enumerate(self.servers) for rank in server.metrics.ranks or ("",)
        ]

    def start(self) -> None:
        self._real_s = self._clock()

    def listen(self, server: WatchedServer) -> None:
        """What was listened to is in the recording."""

    def reject_tables(self, server: WatchedServer) -> None:
        """There are none in a recording of servers."""

    def poll(self) -> int:
        now_s = self._clock()
        if self.playing:
            self._at_s = min(self.end_s, self._at_s + (now_s - self._real_s) * self.speed)
            self.playing = self._at_s < self.end_s
        self._real_s = now_s
        return self._tell_until(self._at_s)

    def close(self) -> None:
        self._file.close()

    # --- winding ------------------------------------------------------------------------------------------------------

    def pause_or_play(self) -> None:
        self.playing = not self.playing and self._at_s < self.end_s
        self._real_s = self._clock()

    def wind(self, seconds: float) -> None:
        """Forward, or back."""
        self.wind_to(self._at_s + seconds)

    def wind_to(self, at_s: float) -> None:
        at_s = max(self.first_s, min(self.end_s, at_s))
        if at_s < self._at_s:
            self._begin(at_s)
        self._at_s = at_s
        self._tell_until(at_s)

    def _begin(self, at_s: float) -> None:
        """Nothing is known yet; what leads to ``at_s`` is to be told."""
        self._at_s = self.first_s
        self.servers = [WatchedServer(target, 1.0) for target in self._targets]
        self._coming = self._records(at_s - WARM_UP_SECONDS)
        self._next: Record | None = None
        self._advance()

    def _advance(self) -> None:
        """Go to the next record; where the file is damaged it ends."""
        try:
            self._next = next(self._coming, None)
        except RecordingError as damage:
            self.failure, self._next, self.playing = str(damage), None, False

    def _tell_until(self, at_s: float) -> int:
        told = 0
        while self._next is not None and self._next.at_s <= at_s:
            self._tell(self._next)
            self._advance()
            told += 1
        for server in self.servers:
            if server.events is not None:
                server.events.follow(server.metrics)
                server.events.poll()
        return told

    def _tell(self, record: Record) -> None:
        server = self.servers[record.server]
        if isinstance(record, form.Page):
            asked_s = record.at_s - record.took_s
            server.metrics.take(Scrape(server.target, asked_s, record.at_s, record.status, record.page, record.failure))
        elif isinstance(record, form.Publisher):
            if server.events is None:
                server.events = KvWatch(
                    server.target, [record.source], self.now_s, lambda source: _ToldListener(source, self.now_s)
                )
                server.events.start()
            else:
                server.events.listeners.append(_ToldListener(record.source, self.now_s))
        elif server.events is not None:
            for listener in server.events.listeners:
                if isinstance(listener, _ToldListener) and listener.source.rank == record.rank:
                    listener.tell(record)
                    server.events.poll()

    def _records(self, pages_from_s: float) -> Iterator[Record]:
        """All events, and the pages from a time on, in the order of their times."""
        waiting: list[Record] = []
        for frame, offset in self._entries:
            if frame.kind == form.TARGETS or (frame.kind == form.PAGES and frame.last_s < pages_from_s):
                continue
            waiting.sort(key=lambda record: record.at_s)
            ready = [record for record in waiting if record.at_s < frame.first_s]
            yield from ready
            waiting = waiting[len(ready) :]
            waiting += self._decode(frame, offset)
        waiting.sort(key=lambda record: record.at_s)
        yield from waiting

    def _decode(self, frame: Frame, offset: int) -> Sequence[Record]:
        try:
            payload = self._payload(frame, offset)
            if frame.kind == form.PAGES:
                return form.decode_pages(payload)
            return form.decode_events(payload) if frame.kind == form.EVENTS else ()
        except msgspec.MsgspecError as error:
            raise RecordingError(f"{self.path}: a frame cannot be read ({error})") from None

    def _payload(self, frame: Frame, offset: int) -> bytes:
        self._file.seek(offset)
        payload = self._file.read(frame.length)
        if crc32(payload) != frame.payload_crc:
            raise RecordingError(f"{self.path}: is damaged; what comes before can be shown")
        try:
            return zstandard.ZstdDecompressor().decompress(payload)
        except zstandard.ZstdError as error:
            raise RecordingError(f"{self.path}: a frame cannot be unpacked ({error})") from None
