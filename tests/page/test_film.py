"""What goes into a page is what the recording shows, at fewer moments where there are many, and that is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvtop.engine.events import Batch
from kvtop.failure import Failure
from kvtop.page.film import FILL_BITS, SHARED_BIT, SLOT_SHIFT, STATE_BITS, Bounds, Film, make_film
from kvtop.sources.recording import Recording
from kvtop.view.cells import FREE, cells_of
from kvtop.view.owner_slots import NO_SLOT
from tests.commands.test_events import record
from tests.sources.traffic import batches


@pytest.fixture(scope="module")
def made() -> list[Batch]:
    return batches(150)


AMPLE = Bounds()


def film_of(path: Path, bounds: Bounds = AMPLE, **steps: int) -> Film:
    with Recording(path) as recording:
        return make_film(recording.timeline, bounds, **steps)


def cells(film: Film) -> np.ndarray:
    """uint16[moments, cells], as the page unpacks them."""
    packed = np.frombuffer(film.cells, "<u2").reshape(len(film.facts["moments"]["step"]), -1)
    return np.bitwise_xor.accumulate(packed, axis=0)


def table_of(facts: dict[str, Any], seq: int, moment: int) -> list[int]:
    """As the page builds it up."""
    table: list[int] = []
    for since, kept, blocks in facts["tables"].get(seq, []):
        if since <= moment:
            table = table[:kept] + blocks
    return table


def test_every_step_is_there_with_its_cells_tables_and_figures(tmp_path: Path, made: list[Batch]) -> None:
    path = record(tmp_path / "a.kvrec", made)
    film = film_of(path)
    shown, steps = cells(film), film.facts["moments"]["step"]
    assert steps == sorted({batch.step for batch in made})
    assert film.facts["left_out"] == []
    with Recording(path) as recording:
        for moment in range(0, len(steps), 7):
            view = recording.timeline.view_at(recording.timeline.position_after_step(steps[moment]))
            truth, codes = cells_of(view), shown[moment]
            assert (codes & ((1 << STATE_BITS) - 1) == truth.states).all()
            assert (codes >> STATE_BITS & ((1 << FILL_BITS) - 1) == truth.fills).all()
            assert ((codes >> SHARED_BIT & 1) == truth.shared).all()
            assert ((codes >> SLOT_SHIFT).astype(int) - 1 == np.where(truth.states == FREE, NO_SLOT, truth.slots)).all()
            rows = film.facts["rows"][moment]
            assert {row[0] for row in rows} == set(view.sequences)
            for seq, *_, blocks, _, _, _, _, _ in rows:
                assert table_of(film.facts, seq, moment) == view.sequences[seq].table
                assert blocks == len(view.sequences[seq].table)
                assert film.facts["names"][seq] == view.sequences[seq].name
            for name, value in (("active", view.blocks.active), ("preemptions", view.counters.preemptions)):
                assert film.facts["moments"][name][moment] == value


def test_events_stand_at_the_moment_at_which_they_are_seen(tmp_path: Path, made: list[Batch]) -> None:
    film = film_of(record(tmp_path / "a.kvrec", made), Bounds(moments=30))
    steps, strings = film.facts["moments"]["step"], film.facts["strings"]
    preempted = [event for event in film.facts["events"] if strings[event[2]] == "preempted"]
    assert len(preempted) == film.facts["moments"]["preemptions"][-1] > 3
    for moment, step, _, words, seq in film.facts["events"]:
        assert steps[moment - 1] < step <= steps[moment] or moment == 0
        assert strings[words] and isinstance(seq, int)


def test_of_a_long_recording_every_few_steps_are_shown_and_that_is_said(tmp_path: Path, made: list[Batch]) -> None:
    film = film_of(record(tmp_path / "a.kvrec", made), Bounds(moments=20, events=40, rows=3))
    steps = film.facts["moments"]["step"]
    assert len(steps) <= 21 and (steps[0], steps[-1]) == (made[0].step, made[-1].step)
    said = "; ".join(film.facts["left_out"])
    assert "one of every 8 of 150 steps is shown" in said
    assert "events of these types are not listed: admitted, allocated, cached" in said
    assert "at most 3 sequences are listed at a moment" in said
    assert len(film.facts["events"]) <= 40


def test_where_even_the_telling_events_are_too_many_the_first_are_listed_and_that_is_said(
    tmp_path: Path, made: list[Batch]
) -> None:
    film = film_of(record(tmp_path / "a.kvrec", made), Bounds(events=3))
    assert len(film.facts["events"]) == 3
    assert any(words.startswith("the first 3 of ") for words in film.facts["left_out"])


def test_a_large_pool_is_shown_in_groups_and_that_is_said(tmp_path: Path) -> None:
    film = film_of(record(tmp_path / "a.kvrec", batches(20, num_blocks=1_000)), Bounds(cells=128))
    assert cells(film).shape[1] == 125
    assert "a cell is 8 blocks, in the colour of most" in film.facts["left_out"]


def test_a_part_is_shown_in_full_detail_with_what_was_before_it(tmp_path: Path, made: list[Batch]) -> None:
    path = record(tmp_path / "a.kvrec", made)
    part, whole = film_of(path, from_step=60, to_step=80), film_of(path)
    assert part.facts["moments"]["step"] == list(range(60, 81))
    at = whole.facts["moments"]["step"].index(60)
    assert (cells(part) == cells(whole)[at : at + 21]).all()
    assert {event[1] for event in part.facts["events"]} <= set(range(60, 81))


def test_of_two_engines_in_a_recording_the_last_is_shown(tmp_path: Path, made: list[Batch]) -> None:
    second = batches(30, seed=2, num_blocks=32)
    film = film_of(record(tmp_path / "a.kvrec", made, second))
    assert film.facts["num_blocks"] == 32
    assert film.facts["moments"]["step"] == [batch.step for batch in second]


def test_no_step_between_the_asked_ones_is_said(tmp_path: Path, made: list[Batch]) -> None:
    path = record(tmp_path / "a.kvrec", made)
    with pytest.raises(Failure, match="no step between"):
        film_of(path, from_step=90, to_step=80)
