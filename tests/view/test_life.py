"""A life tells what the events told: phases with their steps, blocks as the table had them, of bounded size."""

from __future__ import annotations

import pytest

from kvtop.engine.control import Abort, Preempt
from kvtop.view.life import FROZEN, MOST_LEVELS, MOST_STRETCHES, Life, columns_of
from kvtop.view.pauses import Pauses
from kvtop.view.request_rows import RequestRow, request_rows
from tests.view.watched_engine import WatchedEngine, request


def row_of(engine: WatchedEngine, name: str) -> RequestRow:
    return next(row for row in request_rows(engine.view, engine.view.wall_s) if row.name == name)


def phases(row: RequestRow) -> list[tuple[str, int]]:
    return [(span.phase, span.steps) for span in row.spans]


def test_a_request_waits_is_prefilled_in_chunks_and_decodes() -> None:
    engine = WatchedEngine(num_blocks=40, block_size=4, max_num_seqs=1, max_num_batched_tokens=4)
    engine.add(request("req-1", 4, 3))
    engine.add(request("req-2", 10, 4))
    engine.run(3)
    assert row_of(engine, "req-1").seq == 0  # over
    engine.run(5)
    row = row_of(engine, "req-2")
    assert phases(row)[:2] == [("waits", 4), ("prefill", 3)]
    assert row.life.phase == "decode"
    assert row.waited_s is not None and row.first_token_after_s is not None


def test_blocks_over_time_are_those_the_table_had() -> None:
    engine = WatchedEngine(num_blocks=40, block_size=4, prefix_cache=False)
    engine.add(request("req-1", 6, 12))
    held: dict[int, int] = {}
    for _ in range(11):
        engine.run()
        held[engine.view.step] = len(engine.view.sequences[1].table)
    life = engine.view.sequences[1].life
    end = engine.view.step
    columns = columns_of(life, end, 1_000)
    first = life.stretches[0].since_step
    assert {first + i: column.blocks for i, column in enumerate(columns) if first + i in held} == held
    assert life.most_blocks == max(held.values())


@pytest.mark.parametrize(("mode", "frozen"), [("recompute", ["preempted", "recompute"]), ("swap", ["swapped"])])
def test_a_freeze_is_a_stretch_of_its_own_until_the_next_token(mode, frozen: list[str]) -> None:
    engine = WatchedEngine(num_blocks=12, block_size=4, swap_blocks=12, max_num_seqs=2)
    engine.add(request("first", 8, 30))
    engine.add(request("second", 8, 30))
    engine.run(4)
    engine.send(Preempt(seq=2, mode=mode))
    engine.run(12)
    names = [name for name, _ in phases(row_of(engine, "second"))]
    assert names[:3] == ["waits", "prefill", "decode"]
    assert names[3 : 3 + len(frozen)] == frozen and set(frozen) <= set(FROZEN)


def test_the_life_of_what_is_over_is_kept_and_ends_with_it() -> None:
    engine = WatchedEngine(num_blocks=12, block_size=4)
    engine.add(request("req-1", 8, 5))
    engine.add(request("gone", 8, 50))
    engine.run(3)
    engine.send(Abort(request_id="gone"))
    engine.run(10)
    done, gone = row_of(engine, "req-1"), row_of(engine, "gone")
    assert (done.state, gone.state) == ("length", "abort")
    assert done.end_step == 5 and done.life.levels[-1] == (5, 0)
    assert [name for name, _ in phases(done)] == ["waits", "prefill", "decode"]


def test_a_fork_has_a_life_of_its_own() -> None:
    engine = WatchedEngine(num_blocks=40, block_size=4)
    engine.add(request("req-1", 6, 10, n=3, temperature=1.0, seed=1))
    engine.run(4)
    lives = [sequence.life for sequence in engine.view.sequences.values()]
    assert len(lives) == 3 and len({id(life) for life in lives}) == 3
    assert all(life.phase == "decode" for life in lives)
    assert [life.stretches[0].phase for life in lives] == ["waits", "decode", "decode"]


def test_a_very_long_life_keeps_its_size_and_says_that_it_is_cut() -> None:
    life = Life()
    for step in range(10_000):
        life.enter("decode" if step % 2 else "preempted", step, float(step))
        life.hold(step, step)
    assert len(life.stretches) <= MOST_STRETCHES and len(life.levels) <= MOST_LEVELS
    assert life.is_cut and life.levels[-1] == (9_999, 9_999)


def test_a_short_freeze_stays_in_sight_in_a_narrow_chart() -> None:
    life = Life()
    life.enter("waits", 0, 0.0)
    life.enter("decode", 10, 1.0)
    life.enter("preempted", 500, 5.0)
    life.enter("recompute", 501, 5.1)
    life.enter("decode", 502, 5.2)
    shown = [column.phase for column in columns_of(life, 1_000, 20)]
    assert shown.count("preempted") == 1 and shown[0] == "waits" and set(shown[1:9]) == {"decode"}
    assert life.frozen_seconds(1_000, 9.0, Pauses()) == pytest.approx(0.2)


def test_a_chart_has_no_more_columns_than_steps() -> None:
    life = Life()
    life.enter("waits", 3, 0.0)
    assert len(columns_of(life, 5, 80)) == 3 and columns_of(Life(), 5, 80) == []
