from __future__ import annotations

import msgspec
import pytest

from kvtop.engine.control import Abort, Pause, Resume, Set, SetPriority, TakeSnapshot
from kvtop.engine.events import Batch
from kvtop.view import pool_view
from kvtop.view.keyframe import copy_view, dump_view
from kvtop.view.owner_slots import NO_SLOT, glyph
from kvtop.view.pool_view import PoolView
from tests.sources.traffic import batches
from tests.view.watched_engine import WatchedEngine, request


def applied(made: list[Batch]) -> PoolView:
    view = PoolView()
    for batch in made:
        view.apply(batch)
    return view


def test_nothing_is_known_before_the_first_snapshot() -> None:
    made = batches(5)
    view = applied(made[1:])
    assert view.info is None
    assert (view.blocks.num_blocks, view.sequences) == (0, {})


def test_a_batch_that_comes_twice_counts_once() -> None:
    made = batches(30)
    view = applied(made)
    once = dump_view(view)
    for batch in made[-3:]:
        view.apply(batch)
    assert dump_view(view) == once


def test_after_a_missed_batch_nothing_is_applied_until_a_snapshot_comes() -> None:
    engine = WatchedEngine(num_blocks=12, block_size=4)
    engine.add(request("req-1", 6, 30), request("req-2", 5, 30))
    engine.run(4)
    view = engine.view
    kept, engine.view = engine.view, PoolView()
    missed_from = view.last_event_id + 1
    engine.step()
    engine.step()
    view.apply(engine.batches[-1])
    assert view.incomplete_since == missed_from
    assert view.step == 4
    engine.send(TakeSnapshot())
    view.apply(engine.batches[-1])
    assert view.incomplete_since is None
    assert view.step == 6
    assert [entry.event.message for entry in view.log.entries if entry.event.id == 0] == [
        f"events {missed_from:,} to {view.last_event_id:,} were missed; the state is whole again"
    ]
    assert kept is view


def test_what_a_snapshot_does_not_tell_is_kept_for_what_lives_on() -> None:
    engine = WatchedEngine(num_blocks=12, block_size=4)
    engine.add(request("req-1", 6, 30), request("req-2", 5, 30))
    engine.clock.now = 5.0
    engine.run(3)
    before = copy_view(engine.view)
    engine.send(TakeSnapshot())
    snapshot = msgspec.structs.replace(engine.batches[-1], number=engine.batches[-1].number + 5, events=[])
    engine.view.apply(snapshot)
    for seq, sequence in engine.view.sequences.items():
        assert sequence.first_token_s == before.sequences[seq].first_token_s == 5.0
        assert engine.view.slots.slot_of(seq) == before.slots.slot_of(seq) != NO_SLOT
    assert (engine.view.blocks.changed_step == before.blocks.changed_step).all()


def test_an_owner_keeps_its_slot_through_preemption_and_gives_it_back_at_its_end() -> None:
    engine = WatchedEngine(num_blocks=6, block_size=2, prefix_cache=False)
    engine.add(request("req-1", 4, 9), request("req-2", 4, 9))
    engine.run()
    slot = engine.view.slots.slot_of(2)
    assert (glyph(engine.view.slots.slot_of(1)), glyph(slot)) == ("A", "B")
    engine.run_until("preempted")
    assert engine.view.sequences[2].status == "waiting"
    assert engine.view.slots.slot_of(2) == slot
    engine.run_until("resumed")
    assert engine.view.slots.slot_of(2) == slot
    engine.run(30)
    assert engine.view.sequences == {}


def test_single_sequences_and_samples_have_names_for_people() -> None:
    engine = WatchedEngine(num_blocks=20, block_size=4)
    engine.add(request("req-1", 5, 3), request("req-2", 5, 3, n=2, temperature=1.0, seed=1))
    engine.run()
    assert [s.name for s in engine.view.sequences.values()] == ["req-1", "req-2/1", "req-2/2"]
    engine.run(10)
    assert engine.view.sequences == {}
    assert engine.view.name_of(3) == "req-2/2"
    assert engine.view.name_of(99) == "seq 99"


def test_names_prompts_and_texts_of_strangers_are_clean() -> None:
    engine = WatchedEngine(num_blocks=20, block_size=4)
    engine.add(request("\x1b[2Jreq\n\u202e1", 5, 3))
    engine.run()
    (sequence,) = engine.view.sequences.values()
    assert sequence.name == "␛[2Jreq↵1"
    assert sequence.request_id == "\x1b[2Jreq\n\u202e1"
    sequence.raw_text = "\x1b]52;c;aGk=\x07"
    assert sequence.text == "␛]52;c;aGk=␇"


def test_ended_requests_names_and_the_log_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_view, "ENDED_NAMES", 10)
    engine = WatchedEngine(num_blocks=20, block_size=4)
    for i in range(300):
        engine.add(request(f"req-{i}", 3, 1))
        engine.run()
    assert len(engine.view.ended) == pool_view.ENDED_REQUESTS
    assert engine.view.ended[-1].name == "req-299"
    assert len(engine.view.ended_names) == 10
    assert len(engine.view.log.entries) == 1_000
    assert engine.view.over == {}


def test_an_ended_request_tells_what_it_was() -> None:
    engine = WatchedEngine(num_blocks=4, block_size=4)
    engine.clock.now = 10.0
    engine.add(request("req-1", 5, 3), request("huge", 90))
    engine.clock.now = 12.0
    engine.run(3)
    rejected, done = engine.view.ended
    assert (rejected.name, rejected.reasons, rejected.prompt_tokens) == ("huge", ["rejected"], 90)
    assert "the pool has 4" in rejected.text
    assert (done.name, done.reasons, done.generated) == ("req-1", ["length"], 3)
    assert (done.first_token_s, done.ended_s) == (12.0, 12.0)
    assert len(done.text.split()) == 3


def test_a_frozen_sequence_knows_for_how_long() -> None:
    engine = WatchedEngine(num_blocks=6, block_size=2, prefix_cache=False)
    engine.add(request("req-1", 4, 9), request("req-2", 4, 9))
    engine.clock.now = 100.0
    engine.run_until("preempted")
    frozen, running = engine.view.sequences[2], engine.view.sequences[1]
    assert (frozen.frozen, running.frozen) == (True, False)
    assert frozen.frozen_steps(engine.view.step + 3) == 4
    assert frozen.frozen_seconds(107.0, engine.view.pauses) == 7.0
    engine.clock.now = 130.0
    engine.run(30)
    gaps = {ended.name: ended.longest_gap_s for ended in engine.view.ended}
    assert gaps == {"req-1": 30.0, "req-2": 30.0}


def test_who_holds_a_block_and_where() -> None:
    engine = WatchedEngine(num_blocks=20, block_size=4)
    engine.add(request("req-1", [1, 2, 3, 4, 5, 6, 7, 8, 9], 5))
    engine.run()
    engine.add(request("req-2", [1, 2, 3, 4, 5, 6, 7, 8, 30], 5))
    engine.run()
    shared = engine.view.sequences[1].table[1]
    assert engine.view.sequences[2].table[1] == shared
    assert [(s.name, logical) for s, logical in engine.view.holders_of(shared)] == [("req-1", 1), ("req-2", 1)]
    assert engine.view.blocks.holders[shared] == 1
    engine.send(Abort(request_id="req-1"))
    assert engine.view.blocks.holders[shared] == 2


def test_pausing_and_settings_are_known_from_events() -> None:
    engine = WatchedEngine(num_blocks=20, block_size=4)
    engine.add(request("req-1", 5, 3))
    engine.send(Pause())
    engine.send(Set(name="watermark", value="0.25"))
    engine.send(SetPriority(request_id="req-1", priority=3))
    assert engine.view.paused
    assert engine.view.settings["watermark"] == "0.25"
    assert engine.view.sequences[1].priority == 3
    engine.send(Resume())
    assert not engine.view.paused


def test_a_copy_stays_as_it_is() -> None:
    engine = WatchedEngine(num_blocks=20, block_size=4)
    engine.add(request("req-1", 5, 30))
    engine.run(3)
    copied = copy_view(engine.view)
    frame = dump_view(copied)
    assert frame == dump_view(engine.view)
    engine.run(10)
    assert dump_view(copied) == frame != dump_view(engine.view)
