"""The log's lines, the decision path and the sentences of why, on real runs whose numbers can be worked out by hand."""

from __future__ import annotations

from typing import get_args

import pytest

from kvtop.engine import events as e
from kvtop.engine.control import Abort, ClearCache, Pause, Preempt, Set
from kvtop.view.decision import Turn, decision_path, sequence_in_question
from kvtop.view.describe import _TELLERS, describe, wait_words
from kvtop.view.event_log import is_routine
from kvtop.view.pool_view import PoolView
from kvtop.view.why import why_block, why_event, why_sequence
from tests.sources.traffic import batches
from tests.view.watched_engine import WatchedEngine, request


def tight() -> WatchedEngine:
    """6 blocks of 2: A and B hold 2 each for their prompts of 4; both need a third for their 5th token, and then one
    more every second step, until 6 are held and B, the newest, must go."""
    engine = WatchedEngine(num_blocks=6, block_size=2, prefix_cache=False)
    engine.add(request("req-1", 4, 9), request("req-2", 4, 9))
    return engine


def questions(path: list[Turn]) -> list[tuple[str, bool | None]]:
    return [(turn.question, turn.yes) for turn in path]


def test_an_admission_is_told_with_its_numbers() -> None:
    engine = tight()
    engine.run()
    lines = engine.lines()
    assert "queue A req-1  4 prompt tokens, up to 9 new" in lines
    assert "admit B req-2  4 tokens: 2 blocks, 4 to be had; 2 run now; waited 1 step" in lines
    assert "take B req-2  2 blocks (2–3); holds 2, 2 free" in lines
    assert questions(decision_path(engine.view, 2)) == [
        ("a seat?", True),
        ("tokens left in this step?", True),
        ("blocks?", True),
        ("has its last block room?", False),
        ("free blocks?", True),
    ]
    assert decision_path(engine.view, 2)[2].numbers == "needs 2, 4 free + 0 cached"


def test_room_in_the_last_block_is_a_write_and_a_full_one_an_append() -> None:
    engine = tight()
    engine.run(2)
    (last_full, free) = decision_path(engine.view, 1)
    assert (last_full.yes, last_full.numbers) == (False, "all 4 slots of its 2 blocks are filled")
    assert (free.yes, free.numbers, free.then) == (True, "needs 1, 2 free", "append 4")
    engine.run()
    (write,) = decision_path(engine.view, 1)
    assert (write.question, write.yes, write.then) == ("has its last block room?", True, "write")


def test_a_preemption_says_who_by_which_rule_for_whom_and_at_what_cost() -> None:
    engine = tight()
    engine.run_until("preempted")
    lines = engine.lines()
    assert "short A req-1 needed 1 block, 0 free" in lines
    assert (
        "preempt B req-2  newest; A req-1 needed 1 block, 0 free; 3 blocks freed, up to 6 tokens to recompute" in lines
    )
    assert "free B req-2  3 blocks given up: 3 free now" in lines
    assert sequence_in_question(engine.view) == 1
    path = decision_path(engine.view, 1)
    assert questions(path) == [
        ("has its last block room?", False),
        ("free blocks?", False),
        ("enough if cached ones go?", False),
        ("the victim, by rule newest?", None),
        ("free blocks?", True),
    ]
    assert path[3].numbers == "B req-2"
    assert path[3].then == "preempt: 3 of its 3 blocks freed, up to 6 tokens to recompute"
    assert path[4].numbers == "needs 1, 3 free"


def test_the_sentence_for_a_preempted_one_reads_along_the_causes() -> None:
    engine = tight()
    engine.run_until("preempted")
    sentence = why_sequence(engine.view, 2)
    step = engine.view.step
    assert sentence.startswith(
        f"B req-2 was preempted at step {step} by rule newest because A req-1 needed 1 block, 0 free: "
    )
    assert "A req-1 has held 4" in sentence
    preempted = next(x.event for x in engine.view.log.entries if isinstance(x.event, e.Preempted))
    assert why_event(engine.view, preempted).endswith(", because: short A req-1 needed 1 block, 0 free")


def test_the_end_of_a_lonely_sequence_in_a_small_pool_is_told() -> None:
    engine = WatchedEngine(num_blocks=2, block_size=4, prefix_cache=False)
    engine.add(request("req-1", 6, 9))
    engine.run_until("finished")
    assert any(line.startswith("end ") and "the pool is exhausted" in line for line in engine.lines())
    assert questions(decision_path(engine.view, 1))[-1] == ("anybody left to preempt?", False)


def test_an_eviction_takes_the_least_recently_used_and_says_so() -> None:
    engine = WatchedEngine(num_blocks=4, block_size=2)
    engine.add(request("req-1", 5, 1))
    engine.run()
    engine.lines()
    engine.add(request("req-2", [30, 31, 32, 33, 34, 35, 36], 1))
    engine.run()
    lines = engine.lines()
    (eviction,) = [line for line in lines if line.startswith("evict")]
    assert eviction == "evict 2 cached blocks, least recently used first (1, 0)"
    assert ("enough if cached ones go?", True) in questions(decision_path(engine.view, 2))


def test_a_copy_on_write_is_told_and_is_on_the_path() -> None:
    engine = WatchedEngine(num_blocks=12, block_size=4)
    engine.add(request("req-1", 6, 6, n=2, temperature=1.0, seed=3))
    engine.run_until("copied")
    copied = next(x.event for x in engine.view.log.entries if isinstance(x.event, e.Copied))
    line = describe(copied, engine.view)
    assert line.endswith(f"block {copied.src} to {copied.dst}: it writes into a shared block, 2 filled slots")
    path = decision_path(engine.view, copied.seq)
    assert path[0].question == "is the block it writes into its own?"
    assert path[1].then == f"copy 2 slots to block {copied.dst} and write there"


def test_one_that_is_its_own_victim_waits() -> None:
    engine = WatchedEngine(num_blocks=5, block_size=2, prefix_cache=False)
    engine.add(request("req-1", 4, 9), request("req-2", 4, 9))
    engine.run_until("preempted")
    path = decision_path(engine.view, 2)
    preempted = next(x.event for x in engine.view.log.entries if isinstance(x.event, e.Preempted))
    assert preempted.needed_by == preempted.seq == 2
    assert ("try again?", False) in questions(path)
    assert path[-1].then == "it waits"
    assert questions(path)[-1] == ("blocks?", False)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("seats", "no seat: 4 run, as many as may"),
        ("token_budget", "the tokens of this step are spent"),
        ("blocks", "needs 7 blocks, 3 free, 2 cached, 1 promised to prefills"),
        ("watermark", "needs 7 blocks, 3 free, 2 cached; the watermark keeps 1.5"),
        ("swapped_first", "swapped-out sequences come back first"),
        ("siblings", "a sibling computes what it will share"),
        ("preemption_bound", "preempted as often as allowed; one such runs already"),
    ],
)
def test_every_reason_to_wait_has_words(reason: e.WaitReason, words: str) -> None:
    waits = e.Waits(id=1, seq=1, reason=reason, needed=7, free=3, cached=2, promised=1, watermark_blocks=1.5, running=4)
    assert wait_words(waits) == words


def test_room_that_is_there_but_not_in_one_piece_is_told_as_such() -> None:
    waits = e.Waits(id=1, seq=1, reason="blocks", needed=3, free=4, cached=0)
    assert wait_words(waits) == "needs 3 blocks in one piece; 4 free, not in one"


def test_every_reason_to_wait_that_there_is_was_tried_above() -> None:
    assert set(get_args(e.WaitReason)) == {
        *("seats", "token_budget", "blocks", "watermark", "swapped_first", "siblings", "preemption_bound")
    }


def test_what_is_sent_in_may_come_from_a_client_and_is_not_called_the_operator_s() -> None:
    assert "sent in  2 requests" in tight().lines()
    assert describe(e.Commanded(id=1, command="inject", detail="1 request"), PoolView()) == "sent in  1 request"


def test_the_operator_is_named_as_the_cause() -> None:
    engine = tight()
    engine.run()
    engine.lines()
    engine.send(Preempt(seq=2))
    engine.send(Set(name="watermark", value="0.2"))
    lines = engine.lines()
    assert "operator  preempt B req-2, recompute" in lines
    assert "preempt B req-2  by the operator; 2 blocks freed, up to 4 tokens to recompute" in lines
    assert "change watermark  0.0 → 0.2" in lines
    assert "by the operator" in why_sequence(engine.view, 2)
    engine.send(Abort(request_id="req-1"))
    engine.send(ClearCache())
    engine.send(Pause())
    assert "end A req-1  1 token generated: aborted" in engine.lines()


def test_stepping_is_routine_and_does_not_read_as_the_number_of_a_step() -> None:
    one, five = (e.Commanded(id=1, command="step", detail=detail) for detail in ("1", "5"))
    until = e.Commanded(id=3, command="step", detail="preempted")
    assert [describe(event, PoolView()) for event in (one, five, until)] == [
        "operator  runs 1 step",
        "operator  runs 5 steps",
        "operator  runs until preempted",
    ]
    assert all(map(is_routine, (one, five, until)))
    assert not is_routine(e.Commanded(id=4, command="pause"))


def test_a_count_of_one_is_told_in_the_singular() -> None:
    view = PoolView()
    resumed = e.Resumed(
        id=1, seq=1, mode="recompute", tokens=9, cached_tokens=8, needed=1, free=3, cached=0, running=1, waited_steps=1
    )
    assert describe(resumed, view) == "resume seq 1  1 token to compute; 1 block; stood still 1 step"
    preempted = e.Preempted(
        id=2, seq=1, rule="newest", mode="recompute", needed_by=0, held=1, freed=1, tokens=1, preemptions=1
    )
    assert describe(preempted, view) == "preempt seq 1  newest; 1 block freed, up to 1 token to recompute"


def test_what_a_request_generated_is_not_called_all_its_tokens() -> None:
    engine = WatchedEngine(num_blocks=8, block_size=4)
    engine.add(request("req-1", 6, 3))
    engine.run_until("completed")
    lines = engine.lines()
    assert "end A req-1  3 tokens generated: it reached its limit" in lines
    assert "done req-1  3 tokens generated" in lines


def test_what_comes_in_is_told_with_the_blocks_that_its_table_shows_shared_ones_included() -> None:
    engine = WatchedEngine(num_blocks=12, block_size=2)
    engine.add(request("req-1", [1, 2, 3, 4, 5], 8))
    engine.run()
    engine.lines()
    engine.add(request("req-2", [1, 2, 3, 4, 9, 8, 7], 8))
    engine.run()
    assert len(engine.view.sequences[2].table) == 4
    (admitted,) = [line for line in engine.lines() if line.startswith("admit")]
    assert "7 tokens, 4 cached: 4 blocks, 2 of them shared, " in admitted
    engine.send(Preempt(seq=2))
    engine.run()
    (resumed,) = [line for line in engine.lines() if line.startswith("resume")]
    assert len(engine.view.sequences[2].table) == 4
    assert "; 4 blocks, 2 of them shared; " in resumed


def test_a_block_is_explained_by_what_touched_it_last() -> None:
    engine = WatchedEngine(num_blocks=8, block_size=2)
    engine.add(request("req-1", 4, 20))
    engine.run(2)
    assert why_block(engine.view, 0).startswith("block 0 is held by A req-1; step 1: take A req-1")
    assert why_block(engine.view, 7) == "block 7 is free, number 5 of 5 to be handed out"
    engine.send(Abort(request_id="req-1"))
    assert why_block(engine.view, 0).startswith("block 0 is cached: nobody holds it, it is number 2 of 2 to be evicted")
    assert "because: end A req-1  2 tokens generated: aborted" in why_block(engine.view, 0)


def test_one_behind_the_head_of_the_queue_waits_for_it() -> None:
    engine = WatchedEngine(num_blocks=8, block_size=2, max_num_seqs=1)
    engine.add(*(request(f"req-{i}", 3) for i in range(1, 4)))
    engine.run(2)
    assert why_sequence(engine.view, 2) == "req-2 waits: no seat: 1 run, as many as may"
    assert why_sequence(engine.view, 3) == "req-3 waits behind req-2, which waits: no seat: 1 run, as many as may"
    assert why_sequence(engine.view, 1) == "A req-1 decodes: it has run since step 1 and holds 2 blocks"
    assert why_sequence(engine.view, 77) == "seq 77 is over"


def test_a_reservation_asks_for_one_piece_and_says_when_there_is_none_so_large() -> None:
    engine = WatchedEngine(num_blocks=12, block_size=4, policy="reserve-prompt-max-tokens", prefix_cache=False)
    engine.add(*(request(name, 4, max_tokens=tokens) for name, tokens in (("a", 4), ("b", 16), ("c", 12))))
    engine.run()
    assert ("blocks in one piece?", True) in questions(decision_path(engine.view, 1))
    engine.run_until("completed")  # a: two blocks at the beginning are free, and one at the end
    engine.add(request("d", 8, max_tokens=4))
    engine.run()
    *_, asked = decision_path(engine.view, 4)
    assert (asked.question, asked.yes, asked.then) == ("blocks in one piece?", False, "it waits")
    assert asked.numbers == "needs 3, 3 free + 0 cached, but no hole is so large"


def test_every_type_of_event_has_words_of_its_own() -> None:
    assert set(_TELLERS) == set(get_args(e.AnyEvent))


def test_no_line_of_a_busy_run_breaks_or_is_empty() -> None:
    view = PoolView()
    for batch in batches(250, num_blocks=20):
        view.apply(batch)
        for entry in view.log.of_step(view.step):
            line = describe(entry.event, view)
            assert line.strip() and "\n" not in line and "None" not in line
        for seq in view.sequences:
            assert why_sequence(view, seq)
            decision_path(view, seq)
        for block in range(0, 20, 7):
            assert why_block(view, block)


def test_hostile_text_is_harmless_in_every_line() -> None:
    bad = "\x1b]52;c;aGk=\x07[/x]\u202e"
    view = PoolView()
    for event in (
        e.Rejected(id=1, request_id=bad, reason=bad, needed_blocks=1, num_blocks=1, prompt_tokens=1),
        e.Finished(id=2, seq=1, request_id=bad, reason="stop", generated=1, stop_reason=bad, message=bad),
        e.Completed(
            id=3, request_id=bad, reasons=["stop"], prompt_tokens=1, cached_tokens=0, generated=1, preemptions=0,
            recomputed_tokens=0, swapped_blocks=0,
        ),
        e.Warned(id=4, message=bad),
        e.Commanded(id=5, command=bad, detail=bad),
        e.Changed(id=6, name=bad, old=bad, new=bad, request_id=bad),
    ):  # fmt: skip
        line = describe(event, view)
        assert not {"\x1b", "\x07", "\u202e"} & set(line)
        assert "[/x]" in line
