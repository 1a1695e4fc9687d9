"""One frame as text and as data."""

from __future__ import annotations

import json

from kvtop.engine.control import Abort, Inject, Preempt
from kvtop.engine.requests import Request
from kvtop.view.json_frame import frame_as_json
from kvtop.view.keyframe import copy_view
from kvtop.view.plain_frame import plain_frame
from kvtop.view.pool_view import PoolView
from tests.sources.traffic import VirtualClock, batches, simulated_engine
from tests.view.made_view import MadeView
from tests.view.test_prefix_tree import shared_prompts
from tests.view.watched_engine import WatchedEngine, request


def watched(count: int = 150) -> PoolView:
    view = PoolView()
    for batch in batches(count):
        view.apply(batch)
    return view


def test_the_text_says_the_same_counts_as_the_view_and_one_sign_a_block() -> None:
    view = watched()
    lines = plain_frame(view, view.wall_s, "running").splitlines()
    assert f"active       {view.blocks.active} (" in "\n".join(lines)
    (signs,) = (line.split()[1] for line in lines if line.startswith(" 0  "))
    assert (signs.count("."), signs.count(":")) == (view.blocks.free, view.blocks.cached)
    assert len(signs) == view.blocks.num_blocks
    for sequence in view.with_status("running"):
        (row,) = (line for line in lines if line[1:].split()[:1] == [sequence.name])
        assert all(signs[block] in (row[0], signs[sequence.table[0]]) for block in sequence.table[-1:])


def test_a_large_pool_is_shown_in_groups_and_that_is_said() -> None:
    engine = simulated_engine(VirtualClock(), num_blocks=100_000)
    view = PoolView()
    batch = engine.step()
    assert batch is not None
    view.apply(batch)
    text = plain_frame(view, view.wall_s, "idle")
    assert "25 blocks a sign, the owner of most" in text
    assert len(text.splitlines()) < 100


def test_swap_space_and_missing_news_have_lines_of_their_own() -> None:
    engine = WatchedEngine(num_blocks=4, block_size=4, swap_blocks=4, preempt="swap")
    engine.add(request("a", 6, max_tokens=10), request("b", 6, max_tokens=10))
    engine.run_until("swapped_out")
    text = plain_frame(engine.view, 0.0, "running")
    taken = engine.view.swap.active
    assert taken > 0 and f"swap         {taken} of 4 blocks taken" in text
    engine.view.incomplete_since = 17
    assert "incomplete since event 17" in plain_frame(engine.view, 0.0, "running")


def test_what_preemptions_cost_is_told_after_their_events_have_scrolled_out() -> None:
    engine = WatchedEngine(num_blocks=6, block_size=2, prefix_cache=False)
    engine.add(request("req-1", 4, 7), request("req-2", 4, 9))
    engine.run_until("preempted")
    out_step = engine.view.step
    told = "3 blocks freed, up to 6 tokens to recompute"
    assert f"{out_step:>7}  req-2  {told}; not back yet" in plain_frame(engine.view, 0.0, "running")
    engine.run_until("resumed")
    back_step = engine.view.step
    engine.add(*(request(f"req-{i}", 1, 1) for i in range(3, 20)))
    engine.run(40)
    text = plain_frame(engine.view, 0.0, "running")
    assert " preempt " not in text
    assert f"preemptions: 1 since start\n{out_step:>7}  req-2  {told}; back at step {back_step}\n" in text
    (data,) = frame_as_json(engine.view, 0.0, "running")["preemptions"]
    assert (data["step"], data["name"], data["freed_blocks"], data["needed_by"]) == (out_step, "req-2", 3, 1)
    assert (data["tokens_to_recompute_at_most"], data["back_step"], data["out"]) == (6, back_step, False)


def test_a_preemption_by_swap_tells_its_blocks_and_one_that_never_came_back_its_end() -> None:
    engine = WatchedEngine(num_blocks=6, block_size=2, swap_blocks=6, prefix_cache=False)
    engine.add(request("req-1", 4, 9))
    engine.run(2)
    engine.send(Preempt(seq=1, mode="swap"))
    engine.send(Abort(request_id="req-1"))
    text = plain_frame(engine.view, 0.0, "running")
    assert "req-1  3 blocks freed, 3 blocks swapped out; ended at step 2" in text


def test_only_the_last_preemptions_are_listed_and_a_copy_of_the_view_lists_the_same() -> None:
    engine = WatchedEngine(num_blocks=6, block_size=2, prefix_cache=False)
    engine.add(request("req-1", 4, 9))
    for _ in range(7):
        engine.run()
        engine.send(Preempt(seq=1))
    text = plain_frame(engine.view, 0.0, "running")
    assert "preemptions: 7 since start, the last 5\n" in text and text.count(" to recompute; ") == 5
    assert plain_frame(copy_view(engine.view), 0.0, "running") == text


def test_the_events_of_a_frame_are_decisions_and_no_routine() -> None:
    engine = WatchedEngine(num_blocks=6, block_size=2)
    engine.add(request("req-1", 4, 9))
    engine.run(3)
    events = plain_frame(engine.view, 0.0, "running").partition("\nevents: ")[2].splitlines()
    assert events[0] == f"the last 3 decisions of {engine.view.log.total} events"
    assert [line.split()[1] for line in events[1:]] == ["sent", "queue", "admit"]


def test_hostile_text_is_shown_and_not_felt_in_the_text_and_escaped_in_json() -> None:
    engine = simulated_engine(VirtualClock(), num_blocks=32)
    hostile = "x\x1b]52;c;aGk=\x07\x9b2J\u202e[/red]"
    engine.apply(Inject(requests=[Request(id=hostile, prompt=hostile, max_tokens=4)]))
    view = PoolView()
    batch = engine.step()
    assert batch is not None
    view.apply(batch)
    text = plain_frame(view, view.wall_s, "idle\x1b[2J")
    assert "[/red]" in text
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(text)
    data = frame_as_json(view, view.wall_s, "idle")
    assert json.loads(json.dumps(data)) and data["sequences"][0]["request_id"] == hostile


def test_before_the_first_news_there_is_a_line_and_no_figure() -> None:
    assert plain_frame(PoolView(), 0.0, "loading") == "kvtop: loading, nothing is known yet"
    data = frame_as_json(PoolView(), 0.0, "loading")
    assert (data["engine"], data["pool"], data["wall_s"]) == (None, None, None)
    assert set(data["figures"].values()) == {None}


def test_findings_are_told_in_both() -> None:
    made = MadeView()
    made.sequence(blocks=62)
    made.cache(38)
    findings = made.run(6)
    text = plain_frame(made.view, made.view.wall_s, "running", findings)
    assert "   note: usage reads 100% and is harmless\n      0 free, but 38 cached blocks" in text
    (told,) = frame_as_json(made.view, made.view.wall_s, "running", findings)["findings"]
    assert told["key"] == "full-of-cache" and told["since_step"] == findings[0].since_step


def test_json_tells_every_block_by_tables_and_cached_runs() -> None:
    view = watched()
    data = frame_as_json(view, view.wall_s, "running")
    held = {
        block
        for sequence in data["sequences"]
        for first, count in sequence["table_runs"]
        for block in range(first, first + count)
    }
    cached = sum(count for _, count in data["pool"]["cached_runs"])
    assert len(held) == data["pool"]["active"] and cached == data["pool"]["cached"]
    assert len(held) + cached + data["pool"]["free"] == data["pool"]["num_blocks"]


def test_who_shares_a_beginning_and_what_that_saves_is_told_in_both() -> None:
    view = shared_prompts().view
    text = plain_frame(view, view.wall_s, "running")
    (heading,) = (line for line in text.splitlines() if line.startswith("prefixes:"))
    assert heading.endswith("indexed, sharing saves 4 blocks, 256 B")
    (row,) = (line.split() for line in text.splitlines() if line.endswith("req-1, req-2, req-3"))
    assert row[:5] == ["2", "0–7", "3", "2", "4"]
    told = frame_as_json(view, view.wall_s, "running")["prefix"]
    trunk, *others = told["branches"]
    assert told["saved_blocks"] == trunk["saved_blocks"] == 4
    assert (trunk["parent"], trunk["depth"], trunk["ref_count"], trunk["hits"]) == (None, 0, 3, 2)
    assert [view.name_of(seq) for seq in trunk["seqs"]] == ["req-1", "req-2", "req-3"]
    assert [below["depth"] for below in others if below["parent"] == 0] == [2, 2]
    assert sum(n for branch in told["branches"] for _, n in branch["block_runs"]) == told["indexed_blocks"]
    assert told["queried_tokens"] == view.counters.prefix_queried_tokens and told["hit_tokens"] == 16


def test_without_a_prefix_cache_there_is_no_tree_and_copies_still_share() -> None:
    engine = WatchedEngine(num_blocks=40, block_size=4, prefix_cache=False)
    engine.add(request("three", 9, 30, n=3))
    engine.run()
    text = plain_frame(engine.view, 0.0, "running")
    assert "prefixes: no prefix cache, sharing saves 6 blocks" in text
    told = frame_as_json(engine.view, 0.0, "running")["prefix"]
    assert told["branches"] is None and told["indexed_blocks"] is None and told["saved_blocks"] == 6
