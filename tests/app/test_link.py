"""On a slow link frames stay small, nothing is left out in the end, and the backlog is known to the character."""

from __future__ import annotations

import io
import time

import pytest

from kvtop.app.link import SLOW_BYTES_PER_SECOND, Link
from tests.app.feed import story
from tests.app.stage import on_stage, settle, text


class SlowFile(io.StringIO):
    """Takes 200,000 characters a second, behind a buffer that takes ``room`` at once."""

    def __init__(self, room: int = 0) -> None:
        super().__init__()
        self.room = room

    def write(self, data: str) -> int:
        time.sleep(max(0, len(data) - self.room) / 200_000)
        self.room = max(0, self.room - len(data))
        return super().write(data)


def test_the_link_counts_what_waits_and_learns_how_fast_it_is() -> None:
    file = SlowFile()
    link = Link(file)
    link.submitted += 20_000
    assert link.waiting == 20_000 and link.frame_bytes is None
    link.write("x" * 20_000)
    assert link.waiting == 0 and file.getvalue() == "x" * 20_000
    assert link.bytes_per_second is not None and 50_000 < link.bytes_per_second < 250_000
    assert link.frame_bytes is not None and link.frame_bytes <= 10_000


def test_a_buffer_that_takes_much_at_once_does_not_make_the_link_look_quick() -> None:
    link = Link(SlowFile(room=12_000))
    link.write("x" * 20_000)
    assert link.bytes_per_second is not None and 50_000 < link.bytes_per_second < 250_000


def test_a_link_that_found_room_regains_its_speed_slowly() -> None:
    link = Link(SlowFile())
    link.write("x" * 20_000)
    slow = link.bytes_per_second
    link._file = io.StringIO()
    for _ in range(100):
        link.write("x")
    assert slow is not None and link.bytes_per_second is not None
    assert link.bytes_per_second > SLOW_BYTES_PER_SECOND and link.frame_bytes is None


def test_a_quick_link_has_no_limit() -> None:
    link = Link(io.StringIO())
    link.write("x" * 50_000)
    assert link.bytes_per_second is None and link.frame_bytes is None


async def test_on_a_slow_link_a_key_is_answered_without_the_news(monkeypatch: pytest.MonkeyPatch) -> None:
    source = story(num_blocks=600, requests=20)
    source.run(5)
    async with on_stage(source) as (app, pilot):
        await settle(app, pilot)
        before = text(app)
        monkeypatch.setattr(type(app), "due", lambda self: False)
        app.scene.frame_bytes = 0
        source.run(40)
        app.tick()
        await pilot.press("right", "right")
        await pilot.pause()
        assert app.scene.view.step == 5 and app.scene.cursor is not None
        assert f"block {app.scene.cursor} " in text(app) and f"block {app.scene.cursor} " not in before
        monkeypatch.undo()
        app.tick()
        assert app.scene.view.step == 45


async def test_rows_that_found_no_room_in_a_frame_come_with_the_next_ones() -> None:
    source = story(num_blocks=600, requests=20)
    source.run(5)
    async with on_stage(source) as (app, pilot):
        app.scene.frame_bytes = 300
        source.run(40)
        app.feed.poll()
        app.live.redraw()
        await pilot.pause()
        assert app.live.grid.moves_with_time
        for _ in range(60):
            app.live.tick(False)
        await pilot.pause()
        assert not app.live.grid.moves_with_time
        slowly = text(app)
    source = story(num_blocks=600, requests=20)
    source.run(45)
    async with on_stage(source) as (app, pilot):
        await settle(app, pilot)
        rows = slice(2, 24)
        assert [line[:70] for line in slowly.splitlines()[rows]] == [line[:70] for line in text(app).splitlines()[rows]]
