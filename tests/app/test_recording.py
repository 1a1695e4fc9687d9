"""Recording while one watches: ``r`` begins a file and ends it, its size is in sight, its end is told."""

from __future__ import annotations

from pathlib import Path

from kvtop.app.app import AppSettings
from kvtop.app.recording import RecordingSwitch
from kvtop.sources.file_sink import FileSink
from kvtop.sources.recording import Recording
from kvtop.view.keyframe import dump_view
from tests.app.feed import story
from tests.app.stage import on_stage, settle, text


async def test_r_begins_a_file_shows_its_size_and_ends_it_and_the_file_shows_what_was_seen(tmp_path: Path) -> None:
    source = story()
    source.run(20)
    settings = AppSettings(recording=RecordingSwitch(source.recorder, tmp_path, clock=lambda: 0.0))
    async with on_stage(source, settings=settings) as (app, pilot):
        assert "●" not in text(app).splitlines()[0]
        await pilot.press("r")
        (file,) = tmp_path.iterdir()
        assert file.name.startswith("kvtop-19") and file.suffix == ".kvrec"
        source.run(200)
        await settle(app, pilot)
        assert f"● {file.stat().st_size / 1024:.1f} KiB" in text(app).splitlines()[0]
        seen = dump_view(app.feed.live)
        await pilot.press("r")
        await settle(app, pilot)
        assert "●" not in text(app).splitlines()[0]
        assert "recorded to" in text(app)
        source.run(50)
    with Recording(file) as recording:
        timeline = recording.timeline
        assert timeline.steps == (21, 220)
        assert dump_view(timeline.view_at(timeline.end)) == seen


async def test_a_file_that_reaches_its_limit_is_told_of_once_and_the_engine_goes_on(tmp_path: Path) -> None:
    source = story()
    sink = FileSink(tmp_path / "a.kvrec", limit_bytes=12_000)
    source.recorder.attach(sink)
    settings = AppSettings(recording=RecordingSwitch(source.recorder, tmp_path, sink))
    async with on_stage(source, settings=settings) as (app, pilot):
        assert "●" in text(app).splitlines()[0]
        source.run(250)
        app.tick()
        await settle(app, pilot)
        assert "has reached its limit of 11.7 KiB" in text(app)
        assert "●" not in text(app).splitlines()[0]
        assert app.feed.live.step == 250
        assert settings.recording is not None and settings.recording.take_end() == ""


async def test_a_file_that_cannot_be_made_is_told_of(tmp_path: Path) -> None:
    source = story()
    settings = AppSettings(recording=RecordingSwitch(source.recorder, tmp_path / "none"))
    async with on_stage(source, settings=settings) as (app, pilot):
        await pilot.press("r")
        assert [note.severity for note in app._notifications if "cannot be written" in note.message] == ["error"]
