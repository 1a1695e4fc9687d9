"""A recording as a source: played, paused, stepped, wound to and fro. What it shows at a step is always the same.

Batches are handed out at the pace at which they were recorded; times in which nothing happened are shortened. Commands
that would change an engine are refused, those that pause, run on and step move the recording instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kvtop.engine.control import AnyCommand, BatchMessage, Pause, Quit, Reply, Resume, Status, Step, TakeSnapshot
from kvtop.sources.frames import RecordingError
from kvtop.sources.recording import Recording
from kvtop.sources.source import Message, ViewMessage

UNCHANGEABLE = "this is a recording: what happened in it cannot be changed"
LONGEST_PAUSE_SECONDS = 1.0
"""Between two batches of the recording, however long it was."""


class ReplaySource:
    """``position`` counts the batches that were handed out. ``speed``: 2 plays twice as fast as recorded. With
    ``start_step`` it begins paused at the end of that step, else it plays from its beginning.

    Where the recording is damaged, playing stops with a word in the status; ``seek``, ``seek_step``, ``back`` and
    ``step`` raise RecordingError and go no further.
    """

    def __init__(
        self,
        recording: Recording,
        speed: float = 1.0,
        start_step: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.timeline = recording.timeline
        self.position = self.timeline.first
        self.speed = speed
        self.playing = False
        self._recording = recording
        self._start_step = start_step
        self._clock = clock
        self._due_s = 0.0
        """When the next batch is handed out, on ``clock``."""
        self._messages: list[Message] = []

    def start(self) -> None:
        if self._start_step is None:
            self.seek(self.timeline.first)
            self.play()
        else:
            self.seek_step(self._start_step)
            self.pause()

    def restart(self) -> None:
        self._messages.clear()
        self.start()

    def close(self) -> None:
        self.playing = False
        self._recording.close()

    def poll(self, max_messages: int = 1000) -> list[Message]:
        now = self._clock()
        try:
            while self.playing and self._due_s <= now and len(self._messages) < max_messages:
                self._hand_out()
                self._schedule(now)
        except RecordingError as damage:
            self.playing = False
            self._messages.append(Status(state="paused", detail=str(damage)))
        taken, self._messages = self._messages[:max_messages], self._messages[max_messages:]
        return taken

    def send(self, command: AnyCommand) -> None:
        error = ""
        match command:
            case Pause():
                self.pause()
            case Resume():
                self.play()
            case Step(steps=steps, until=until):
                self.pause()
                try:
                    self.step(steps, until)
                except RecordingError as damage:
                    error = str(damage)
            case TakeSnapshot() | Quit():
                pass
            case _:
                error = UNCHANGEABLE
        self._messages.append(Reply(ticket=command.ticket, error=error))

    @property
    def steps(self) -> tuple[int, int]:
        """The first and the last step there is."""
        return self.timeline.steps

    # --- moving ------------------------------------------------------------------------------------------------------

    def play(self) -> None:
        """Go on at the recorded pace; at the end nothing happens."""
        self.playing = self.position < self.timeline.end
        self._due_s = self._clock()
        self._tell_state()

    def pause(self) -> None:
        self.playing = False
        self._tell_state()

    def step(self, steps: int = 1, until: str = "") -> None:
        """Forward by whole steps; with ``until`` to the first event of that type, at most ``steps`` further."""
        current = self._step_now()
        while self.position < self.timeline.end:
            batch = self.timeline.batch(self.position)
            if batch.step > current:
                if not steps:
                    return
                steps -= 1
                current = batch.step
            self._hand_out()
            if until and any(event.__struct_config__.tag == until for event in batch.events):
                return

    def back(self, steps: int = 1) -> None:
        """Back by whole steps."""
        position = self.position
        for _ in range(steps):
            here = self._place_before(position)
            while position > self.timeline.first and self._place_before(position) == here:
                position -= 1
        self.seek(position)

    def seek(self, position: int) -> None:
        """To a position (a count of batches), which is brought into the recording."""
        position = max(self.timeline.first, min(position, self.timeline.end))
        self._messages.append(ViewMessage(self.timeline.view_at(position)))
        self.position = position
        self._due_s = self._clock()

    def seek_step(self, step: int) -> None:
        """To the end of a step."""
        self.seek(self.timeline.position_after_step(step))

    # --- handing out -------------------------------------------------------------------------------------------------

    def _place_before(self, position: int) -> tuple[int, int]:
        """Session and step of the batch that led to ``position``."""
        if position == self.timeline.first:
            return -1, -1
        return self.timeline.session_at(position - 1), self.timeline.batch(position - 1).step

    def _step_now(self) -> int:
        return self.timeline.batch(self.position - 1).step if self.position > self.timeline.first else 0

    def _hand_out(self) -> None:
        first = self.position == self.timeline.first
        if not first and self.timeline.session_at(self.position) != self.timeline.session_at(self.position - 1):
            self.seek(self.position + 1)  # another engine begins: its batches say nothing about the old one's state
            return
        self._messages.append(BatchMessage(batch=self.timeline.batch(self.position)))
        self.position += 1

    def _schedule(self, now: float) -> None:
        """Set when the next batch is due, or stop at the end. A reader that polls late does not catch up by a rush."""
        if self.position >= self.timeline.end:
            self.pause()
            return
        before, after = self.timeline.batch(self.position - 1), self.timeline.batch(self.position)
        waited = min(max(0.0, after.wall_s - before.wall_s), LONGEST_PAUSE_SECONDS)
        self._due_s = max(self._due_s + waited / self.speed, now - LONGEST_PAUSE_SECONDS)

    def _tell_state(self) -> None:
        at_end = self.position >= self.timeline.end
        detail = "the end of the recording" if at_end else ""
        self._messages.append(Status(state="running" if self.playing else "paused", detail=detail))
