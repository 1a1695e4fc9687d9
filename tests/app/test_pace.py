"""Frames keep their rate on a quick link, and give way on a slow one."""

from __future__ import annotations

from kvtop.app.pace import CALM_FRAMES, SLOWEST_S, Pace


def run(pace: Pace, start_s: float, seconds: float, backlog: int) -> int:
    """Frames drawn when asked a hundred times a second."""
    return sum(pace.due(start_s + i / 100, backlog) for i in range(round(seconds * 100)))


def test_a_quick_link_gets_every_frame() -> None:
    assert 95 <= run(Pace(10), 0, 10, 0) <= 110


def test_nothing_is_drawn_while_frames_wait_and_the_interval_doubles() -> None:
    pace = Pace(10)
    assert run(pace, 0, 1, 3) == 0
    assert pace.interval_s >= 0.8
    run(pace, 1, 100, 3)
    assert pace.interval_s == SLOWEST_S


def test_it_recovers_slowly_and_fully() -> None:
    pace = Pace(10)
    run(pace, 0, 0.5, 3)
    slow = pace.interval_s
    drawn = 0
    now = 0.5
    while drawn < CALM_FRAMES - 1:
        drawn += pace.due(now, 0)
        now += 0.01
    assert pace.interval_s == slow
    run(pace, now, 200, 0)
    assert pace.interval_s == 0.1
