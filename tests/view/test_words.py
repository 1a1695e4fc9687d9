from __future__ import annotations

import pytest

from kvtop.view.pool_view import PoolView
from kvtop.view.words import UNKNOWN, count, duration, share, size, spans


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (23_040, "22.5 KiB"),
        (368_640, "360 KiB"),
        (377_487_360, "360 MiB"),
        (2**40, "1 TiB"),
    ],
)
def test_bytes_are_said_in_units_that_people_read(number: float, words: str) -> None:
    assert size(number) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, UNKNOWN),
        (0.04, "0.04 s"),
        (0.42, "0.42 s"),
        (3.14, "3.1 s"),
        (41.3, "41 s"),
        (59.7, "1 min"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
    ],
)
def test_a_duration_has_no_more_digits_than_it_deserves(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("part", "whole", "words"),
    [(1, 0, UNKNOWN), (0, 5, "0%"), (1, 10_000, "<1%"), (61, 100, "61%"), (9_999, 10_000, ">99%"), (5, 5, "100%")],
)
def test_a_share_is_never_rounded_to_none_or_all(part: float, whole: float, words: str) -> None:
    assert share(part, whole) == words


def test_counts_and_block_spans() -> None:
    assert [count(1, "block"), count(0, "block"), count(1284, "step")] == ["1 block", "0 blocks", "1,284 steps"]
    assert spans([(4, 3), (9, 1)], PoolView()) == "4–6, 9"
    assert spans([(i, 1) for i in range(0, 20, 2)], PoolView()) == "0, 2, 4, 6, …"
