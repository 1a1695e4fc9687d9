from __future__ import annotations

import itertools
import os
import tracemalloc
from pathlib import Path

import msgspec
import pytest

from kvtop.engine.events import Batch, Warned
from kvtop.sources import recorder as recorder_module
from kvtop.sources.file_sink import FileSink
from kvtop.sources.frames import FRAME_HEADER_BYTES, KEYFRAME, VERSION, RecordingError, RecordingStopped, scan
from kvtop.sources.history import History
from kvtop.sources.recorder import Recorder, work_of
from kvtop.sources.recording import Recording
from kvtop.view.keyframe import dump_view
from kvtop.view.pool_view import PoolView
from tests.sources.traffic import batches


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many frames and keyframes in a short recording."""
    monkeypatch.setattr(recorder_module, "FLUSH_WORK", 60)
    monkeypatch.setattr(recorder_module, "KEYFRAME_WORK", 300)


def record(path: Path, *sessions: list[Batch]) -> Path:
    recorder = Recorder([FileSink(path)])
    for session in sessions:
        for batch in session:
            recorder.add(batch)
    recorder.close()
    return path


def frames_shown(made: list[Batch]) -> list[bytes]:
    """The whole view after each number of batches."""
    view = PoolView()
    shown = [dump_view(view)]
    for batch in made:
        view.apply(batch)
        shown.append(dump_view(view))
    return shown


def test_every_position_shows_exactly_what_was_shown_live(tmp_path: Path) -> None:
    made = batches(200)
    shown = frames_shown(made)
    with Recording(record(tmp_path / "a.kvrec", made)) as recording:
        timeline = recording.timeline
        assert timeline.end == len(made)
        assert recording.lost_bytes == 0
        for position in (200, 0, 7, 199, 100, 101, 100, 3):
            assert dump_view(timeline.view_at(position)) == shown[position]


def test_batches_come_back_as_they_were(tmp_path: Path) -> None:
    made = batches(120)
    with Recording(record(tmp_path / "a.kvrec", made)) as recording:
        assert list(recording.timeline.batches(0)) == made
        assert recording.timeline.batch(57) == made[57]
        with pytest.raises(IndexError, match="position 120"):
            recording.timeline.batch(120)


def test_a_recording_cut_at_any_byte_replays_up_to_the_cut(tmp_path: Path) -> None:
    made = batches(40)
    shown = frames_shown(made)
    cut = record(tmp_path / "cut.kvrec", made)
    with cut.open("rb") as file:
        frames, _ = scan(file)
    size = cut.stat().st_size
    edges = [0, *(offset + edge for frame, offset in frames for edge in (-FRAME_HEADER_BYTES, 0, frame.length))]
    lengths = {edge + near for edge in edges for near in (-2, -1, 0, 1, 2)} | set(range(0, size, 997)) | set(range(120))
    ends: dict[int, int] = {}
    for length in sorted((length for length in lengths if 0 <= length < size), reverse=True):
        os.truncate(cut, length)
        try:
            with Recording(cut) as recording:
                end = recording.timeline.end
                if end not in ends.values():
                    assert dump_view(recording.timeline.view_at(end)) == shown[end]
                ends[length] = end
        except RecordingError as error:
            assert "empty" in str(error) or "cut off before its first step" in str(error)
    first_group_end = frames[0][1] + frames[0][0].length
    assert min(ends) == first_group_end
    for frame, offset in frames:
        if frame.count:
            assert ends.get(offset + frame.length, frame.first + frame.count) == frame.first + frame.count
            assert ends.get(offset + frame.length - 1, frame.first) == frame.first


def test_a_damaged_payload_is_named_and_what_comes_before_can_be_shown(tmp_path: Path) -> None:
    made = batches(120)
    path = record(tmp_path / "a.kvrec", made)
    with path.open("rb") as file:
        frames, _ = scan(file)
    frame, offset = next((f, o) for f, o in frames if f.first > 60 and f.kind != KEYFRAME)
    data = bytearray(path.read_bytes())
    data[offset + 5] ^= 0xFF
    path.write_bytes(data)
    with Recording(path) as recording:
        assert dump_view(recording.timeline.view_at(frame.first)) == frames_shown(made)[frame.first]
        with pytest.raises(RecordingError, match=f"damaged at step {frame.first_step}"):
            list(recording.timeline.batches(frame.first))


def test_damage_in_a_header_ends_the_recording_there(tmp_path: Path) -> None:
    path = record(tmp_path / "a.kvrec", batches(120))
    with path.open("rb") as file:
        frames, _ = scan(file)
    frame, offset = frames[4]
    data = bytearray(path.read_bytes())
    data[offset - FRAME_HEADER_BYTES + 8] ^= 0x01
    path.write_bytes(data)
    with Recording(path) as recording:
        assert recording.timeline.end == frame.first
        assert recording.lost_bytes == len(data) - offset + FRAME_HEADER_BYTES


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"KVR", "is cut off before its first step"),
        (b"KVREC\0\x01\0", "is cut off before its first step"),
        (b"PK\x03\x04 something else entirely", "is not a kvtop recording"),
        (b"KVREC\0" + (VERSION + 1).to_bytes(2, "little") + b"rest", f"format version {VERSION + 1}.*use a newer one"),
    ],
)
def test_what_is_no_recording_is_said_in_a_line(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "odd.kvrec"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=words) as raised:
        Recording(path)
    assert "\n" not in str(raised.value)


def test_a_missing_file_and_a_folder_are_said_in_a_line(tmp_path: Path) -> None:
    for path in (tmp_path / "none.kvrec", tmp_path):
        with pytest.raises(RecordingError, match="cannot be read"):
            Recording(path)


def test_an_existing_file_is_never_written_over(tmp_path: Path) -> None:
    path = record(tmp_path / "a.kvrec", batches(5))
    with pytest.raises(RecordingError, match="exists already"):
        FileSink(path)


def test_a_second_engine_in_the_same_recording_owes_nothing_to_the_first(tmp_path: Path) -> None:
    first, second = batches(90), batches(50, seed=2, num_blocks=32)
    with Recording(record(tmp_path / "a.kvrec", first, second)) as recording:
        timeline = recording.timeline
        assert timeline.end == 140
        assert dump_view(timeline.view_at(90)) == frames_shown(first)[90]
        assert dump_view(timeline.view_at(120)) == frames_shown(second)[30]
        assert timeline.position_after_step(20) > 90


def test_a_gap_in_the_numbers_is_kept_as_a_gap(tmp_path: Path) -> None:
    made = batches(30)
    with Recording(record(tmp_path / "a.kvrec", made[:10] + made[15:])) as recording:
        view = recording.timeline.view_at(recording.timeline.end)
        assert view.incomplete_since == made[9].events[-1].id + 1
        assert view.step == made[9].step


def test_positions_are_found_by_step_and_by_time(tmp_path: Path) -> None:
    made = batches(150)
    with Recording(record(tmp_path / "a.kvrec", made)) as recording:
        timeline = recording.timeline
        assert timeline.steps == (made[0].step, made[-1].step)
        position = timeline.position_after_step(made[70].step)
        assert (made[position - 1].step, made[position].step) == (made[70].step, made[70].step + 1)
        assert timeline.position_at_time(made[33].wall_s) == 34
        assert timeline.position_at_time(0.0) == 0


def test_no_seek_applies_more_than_a_keyframes_worth_of_work(tmp_path: Path) -> None:
    made = batches(400, requests_in=200)
    path = record(tmp_path / "a.kvrec", made)
    with path.open("rb") as file:
        frames, _ = scan(file)
    keyframes = [frame.first for frame, _ in frames if frame.kind == KEYFRAME]
    assert len(keyframes) > 5
    bounds = [0, *keyframes, len(made)]
    dearest = max(work_of(batch) for batch in made)
    for start, stop in itertools.pairwise(bounds):
        assert sum(map(work_of, made[start:stop])) <= 300 + 60 + dearest


def test_a_paused_engine_has_everything_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "a.kvrec"
    recorder = Recorder([FileSink(path)])
    made = batches(3)
    assert made[0].snapshot is not None
    paused = msgspec.structs.replace(made[0], snapshot=msgspec.structs.replace(made[0].snapshot, paused=True))
    for batch in (paused, *made[1:]):
        recorder.add(batch)
    with Recording(path) as recording:
        assert recording.timeline.end == 3
    recorder.close()


class FullDisk:
    def append(self, frame: object, payload: bytes) -> None:
        raise RecordingStopped("a.kvrec: No space left on device")

    def close(self) -> None:
        """Nothing is held."""


def test_a_full_disk_ends_the_recording_and_nothing_else() -> None:
    history = History()
    recorder = Recorder([FullDisk(), history])
    for batch in batches(60):
        recorder.add(batch)
    recorder.close()
    assert recorder.failure == "recording stopped at step 1: a.kvrec: No space left on device"
    assert history.timeline().end == 60


def test_a_recording_stops_before_its_limit_says_so_and_replays_up_to_there(tmp_path: Path) -> None:
    made = batches(200)
    path = tmp_path / "a.kvrec"
    sink = FileSink(path, limit_bytes=20_000)
    recorder = Recorder([sink])
    for batch in made:
        recorder.add(batch)
    recorder.close()
    assert sink.size_bytes == path.stat().st_size <= 20_000
    with Recording(path) as recording:
        end = recording.timeline.end
        assert 0 < end < 200
        assert recording.lost_bytes == 0
        assert dump_view(recording.timeline.view_at(end)) == frames_shown(made)[end]
        assert sink.last_step == made[end - 1].step
    assert recorder.failure.startswith(f"recording stopped at step {made[end].step}: ")
    assert recorder.failure.endswith("a.kvrec has reached its limit of 19.5 KiB")


def test_a_recording_begun_in_the_middle_shows_exactly_what_was_shown_from_there(tmp_path: Path) -> None:
    made = batches(120)
    shown = frames_shown(made)
    recorder = Recorder([History()])
    for batch in made[:70]:
        recorder.add(batch)
    sink = FileSink(tmp_path / "late.kvrec")
    recorder.attach(sink)
    for batch in made[70:100]:
        recorder.add(batch)
    recorder.detach(sink)
    for batch in made[100:]:
        recorder.add(batch)
    recorder.close()
    assert sink.size_bytes == (tmp_path / "late.kvrec").stat().st_size
    with Recording(tmp_path / "late.kvrec") as recording:
        timeline = recording.timeline
        assert (timeline.first, timeline.end) == (70, 100)
        for position in (70, 71, 85, 100):
            assert dump_view(timeline.view_at(position)) == shown[position]
    with pytest.raises(RecordingError, match="has ended"):
        recorder.attach(History())


def test_a_drained_engine_has_everything_on_disk(tmp_path: Path) -> None:
    made = batches(10_000, requests_in=5)
    recorder = Recorder([FileSink(tmp_path / "a.kvrec")])
    for batch in made:
        recorder.add(batch)
    with Recording(tmp_path / "a.kvrec") as recording:
        assert recording.timeline.end == len(made) < 10_000
    recorder.close()


def test_history_is_bounded_and_everything_it_holds_can_be_shown() -> None:
    made = batches(400, requests_in=200)
    shown = frames_shown(made)
    history = History(max_bytes=60_000)
    recorder = Recorder([history])
    for batch in made:
        recorder.add(batch)
    recorder.close()
    timeline = history.timeline()
    assert 0 < timeline.first < timeline.end == 400
    assert sum(len(payload) for _, payload in history._frames) < 120_000
    for position in (timeline.first, timeline.first + 1, timeline.end):
        assert dump_view(timeline.view_at(position)) == shown[position]
    assert dump_view(timeline.view_at(0)) == shown[timeline.first]


@pytest.mark.slow
def test_any_of_a_million_events_is_found_within_a_fifth_of_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    monkeypatch.undo()
    made = batches(600, requests_in=200)
    last = made[-1]
    recorder = Recorder([FileSink(tmp_path / "long.kvrec")])
    for batch in made:
        recorder.add(batch)
    events, number = sum(len(batch.events) for batch in made), last.number
    next_id = last.events[-1].id + 1
    while events < 1_000_000:
        number += 1
        news = [Warned(id=next_id + i, message=f"event {next_id + i}") for i in range(50)]
        next_id, events = next_id + 50, events + 50
        recorder.add(
            Batch(
                number=number, step=last.step + number, monotonic_s=number / 80, wall_s=number / 80, events=list(news)
            )
        )
    recorder.close()
    with Recording(tmp_path / "long.kvrec") as recording:
        timeline = recording.timeline
        for position in (timeline.end, timeline.end // 2, 599, timeline.end // 3):
            started = time.process_time()  # not the clock: others may use the machine
            view = timeline.view_at(position)
            assert time.process_time() - started < 0.2
            assert view.number == timeline.batch(position - 1).number


def test_the_past_of_a_running_engine_takes_the_memory_that_is_counted_against_its_bound() -> None:
    history = History()
    recorder = Recorder([history])
    made = batches(1_500)
    tracemalloc.start()
    try:
        for batch in made:
            recorder.add(batch)
        before = tracemalloc.get_traced_memory()[0]
        counted, frames = history._bytes, len(history._frames)
        history._frames.clear()
        held = before - tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert counted > 50_000 and counted <= held < counted + 1_000 * frames
