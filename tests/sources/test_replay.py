from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvtop.engine.control import Abort, BatchMessage, Pause, Reply, Resume, Status, Step
from kvtop.engine.events import Batch
from kvtop.sources import recorder as recorder_module
from kvtop.sources.file_sink import FileSink
from kvtop.sources.frames import RecordingError, scan
from kvtop.sources.recorder import Recorder
from kvtop.sources.recording import Recording
from kvtop.sources.replay import LONGEST_PAUSE_SECONDS, ReplaySource
from kvtop.sources.source import Message, ViewMessage
from kvtop.view.keyframe import dump_view
from kvtop.view.pool_view import PoolView
from tests.sources.traffic import batches


class Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


class Watcher:
    """What an app does with a source: keeps a view."""

    def __init__(self, source: ReplaySource) -> None:
        self.source = source
        self.view = PoolView()
        self.replies: list[Reply] = []
        self.status = Status(state="loading")

    def poll(self) -> list[Message]:
        messages = self.source.poll()
        for message in messages:
            if isinstance(message, BatchMessage):
                self.view.apply(message.batch)
            elif isinstance(message, ViewMessage):
                self.view = message.view
            elif isinstance(message, Reply):
                self.replies.append(message)
            else:
                self.status = message
        return messages

    @property
    def shown(self) -> bytes:
        return dump_view(self.view)


@pytest.fixture(scope="module")
def made() -> list[Batch]:
    return batches(160)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def record(path: Path, made: list[Batch]) -> Path:
    recorder = Recorder([FileSink(path)])
    for batch in made:
        recorder.add(batch)
    recorder.close()
    return path


@pytest.fixture
def watcher(tmp_path: Path, made: list[Batch], clock: Clock) -> Iterator[Watcher]:
    source = ReplaySource(Recording(record(tmp_path / "a.kvrec", made)), clock=clock)
    source.start()
    yield Watcher(source)
    source.close()


def test_it_plays_at_the_pace_at_which_it_was_recorded(watcher: Watcher, made: list[Batch], clock: Clock) -> None:
    watcher.poll()
    start = clock.now
    for moment in (0.2, 0.5, 1.0):
        clock.now = start + moment
        watcher.poll()
        due = sum(1 for batch in made if batch.wall_s - made[0].wall_s <= moment)
        assert abs(watcher.view.number - due) <= 1


def test_at_the_end_it_stops_and_says_so(watcher: Watcher, made: list[Batch], clock: Clock) -> None:
    for _ in range(1_000):
        clock.now += LONGEST_PAUSE_SECONDS
        watcher.poll()
    assert watcher.view.number == made[-1].number
    assert (watcher.status.state, watcher.status.detail) == ("paused", "the end of the recording")
    assert watcher.source.poll() == []


def test_a_step_back_and_forward_again_shows_the_same_frame(watcher: Watcher) -> None:
    source = watcher.source
    source.pause()
    source.seek(60)
    watcher.poll()
    frame, step = watcher.shown, watcher.view.step
    source.back()
    watcher.poll()
    assert watcher.view.step == step - 1
    before = watcher.shown
    source.send(Step())
    watcher.poll()
    assert watcher.shown == frame
    source.back(3)
    source.send(Step(steps=2))
    watcher.poll()
    assert watcher.shown == before


def test_seeking_shows_what_playing_shows(watcher: Watcher, made: list[Batch]) -> None:
    source, played = watcher.source, PoolView()
    source.pause()
    for batch in made[:90]:
        played.apply(batch)
    source.seek_step(made[89].step)
    watcher.poll()
    assert watcher.shown == dump_view(played)
    source.seek(10**9)
    watcher.poll()
    assert watcher.view.number == made[-1].number
    source.seek(-5)
    watcher.poll()
    assert watcher.view.info is None


def test_it_steps_to_the_next_event_of_a_kind(watcher: Watcher, made: list[Batch]) -> None:
    watcher.source.pause()
    watcher.source.send(Step(ticket=4, steps=10_000, until="preempted"))
    watcher.poll()
    first = next(b for b in made if any(type(event).__name__ == "Preempted" for event in b.events))
    assert watcher.view.number == first.number
    assert watcher.replies == [Reply(ticket=4)]


def test_pause_and_resume_move_the_recording_and_changes_are_refused(watcher: Watcher, clock: Clock) -> None:
    source = watcher.source
    source.send(Pause(ticket=1))
    clock.now += 5
    watcher.poll()
    assert watcher.status.state == "paused"
    still = watcher.view.number
    clock.now += 5
    watcher.poll()
    assert watcher.view.number == still
    source.send(Abort(ticket=2, request_id="req-1"))
    source.send(Resume(ticket=3))
    clock.now += 0.1
    watcher.poll()
    assert watcher.view.number > still
    assert [bool(reply.error) for reply in watcher.replies] == [False, True, False]
    assert "recording" in watcher.replies[1].error


def test_a_reader_that_polls_late_gets_no_rush(watcher: Watcher, made: list[Batch], clock: Clock) -> None:
    clock.now += 3_600
    messages = watcher.poll()
    seconds = made[-1].wall_s - made[0].wall_s
    handed_out = sum(isinstance(message, BatchMessage) for message in messages)
    assert seconds > 2 * LONGEST_PAUSE_SECONDS
    assert handed_out <= len(made) * LONGEST_PAUSE_SECONDS / seconds * 1.5


def test_a_new_engine_in_the_recording_is_shown_as_one(tmp_path: Path, made: list[Batch]) -> None:
    second = batches(30, seed=3, num_blocks=32)
    source = ReplaySource(Recording(record(tmp_path / "b.kvrec", [*made[:50], *second])))
    source.seek(0)
    watcher = Watcher(source)
    source.step(steps=49)
    watcher.poll()
    assert watcher.view.blocks.num_blocks == 24
    source.step(steps=40)
    watcher.poll()
    assert watcher.view.blocks.num_blocks == 32
    source.seek(51)
    source.back()
    watcher.poll()
    assert (watcher.view.blocks.num_blocks, watcher.view.number) == (24, 50)
    source.close()


def test_it_can_begin_paused_at_a_step(tmp_path: Path, made: list[Batch], clock: Clock) -> None:
    source = ReplaySource(Recording(record(tmp_path / "c.kvrec", made)), start_step=made[40].step, clock=clock)
    source.start()
    watcher = Watcher(source)
    clock.now += 10
    watcher.poll()
    assert (watcher.view.step, watcher.status.state) == (made[40].step, "paused")
    source.restart()
    watcher.poll()
    assert watcher.view.step == made[40].step
    source.close()


def test_a_damaged_place_stops_it_with_a_word_and_what_comes_before_is_shown(
    tmp_path: Path, made: list[Batch], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "FLUSH_WORK", 60)
    path = record(tmp_path / "d.kvrec", made)
    with path.open("rb") as file:
        frames, _ = scan(file)
    frame, offset = next((f, o) for f, o in frames if f.first > 60)
    data = bytearray(path.read_bytes())
    data[offset + 5] ^= 0xFF
    path.write_bytes(data)
    source = ReplaySource(Recording(path), clock=clock)
    source.start()
    watcher = Watcher(source)
    for _ in range(200):
        clock.now += LONGEST_PAUSE_SECONDS
        watcher.poll()
    assert watcher.view.number == made[frame.first - 1].number
    assert watcher.status.state == "paused" and f"damaged at step {frame.first_step}" in watcher.status.detail
    source.send(Step(ticket=9))
    watcher.poll()
    assert "is damaged" in watcher.replies[-1].error
    with pytest.raises(RecordingError, match="is damaged"):
        source.seek(frame.first + 1)
    source.back()
    watcher.poll()
    assert watcher.view.step == made[frame.first - 1].step - 1
    source.close()
