"""On a slow link frames stay small, nothing is left out in the end, and the backlog is known to the character."""

from __future__ import annotations

import io
import time

from kvtop.app.link import SLOW_BYTES_PER_SECOND, Link
from tests.app.feed import story
from tests.app.stage import on_stage, settle, text


class SlowFile(io.StringIO):
    def write(self, data: str) -> int:
        time.sleep(len(data) / 200_000)
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


def test_a_quick_link_has_no_limit() -> None:
    link = Link(io.StringIO())
    link.write("x" * 50_000)
    assert link.bytes_per_second is not None and link.bytes_per_second > SLOW_BYTES_PER_SECOND
    assert link.frame_bytes is None


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
