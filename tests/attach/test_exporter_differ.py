"""Row 14 of the attach cases, and the exporter's promise: what it tells rebuilds a real vLLM's tables at every step."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kvtop.attach.exposition import PageReader
from kvtop.engine import events as e
from kvtop.exporter.differ import Differ
from kvtop.view.pool_view import PoolView
from tests.attach.recorded import SCENARIOS, messages, pages, summary, truth
from tests.attach.truth_reader import TruthReader, after_preemptions, info_of


class Told:
    """A recording told by the exporter's differ, batch by batch, to a view."""

    def __init__(self, first: dict[str, Any]) -> None:
        self.reader = TruthReader(first)
        self.differ = Differ(self.reader, info_of(first))
        self.view = PoolView()
        self.state = first
        self.number = 0
        self.all_events: list[e.AnyEvent] = []
        self.begin(first)

    def begin(self, state: dict[str, Any]) -> None:
        self.differ.begin()
        self._send(state, [], self.differ.mirror.snapshot(self.differ.teller.last_id))

    def show(self, state: dict[str, Any]) -> None:
        """What the exporter does: observe after each call, and right after each preemption."""
        self.differ.step += state["phase"] == "schedule"
        events = []
        for between in after_preemptions(self.state, state):
            self.reader.show(between)
            events += self.differ.observe()
        self.reader.show(state)
        self.state = state
        self._send(state, events + self.differ.observe(), None)

    def _send(self, state: dict[str, Any], events: list[e.AnyEvent], snapshot: e.Snapshot | None) -> None:
        self.number += 1
        self.all_events += events
        batch = e.Batch(
            number=self.number,
            step=self.differ.step,
            monotonic_s=state["ts"],
            wall_s=state["ts"],
            events=events,
            snapshot=snapshot,
        )
        self.view.apply(msgspec.msgpack.decode(msgspec.msgpack.encode(batch), type=e.Batch))


def lives(scenario: str) -> list[list[dict[str, Any]]]:
    """The recorded states of each life of the server."""
    result: list[list[dict[str, Any]]] = []
    for state in truth(scenario):
        if not result or state["seq"] < result[-1][-1]["seq"]:
            result.append([])
        result[-1].append(state)
    return result


def assert_view_is_the_truth(view: PoolView, state: dict[str, Any]) -> None:
    blocks = view.blocks
    assert blocks.ref_counts.tolist() == list(state["ref"][1:])
    assert (blocks.hashes != 0).tolist() == [bool(hashed) for hashed in state["hashed"][1:]]
    assert (blocks.idle_order() + 1).tolist() == state["free"]
    alive = {sequence.request_id: sequence for sequence in view.sequences.values()}
    assert alive.keys() == {request[0] for request in state["reqs"]}
    for request_id, status, waiting, prompt, tokens, computed, preemptions, tables in state["reqs"]:
        sequence = alive[request_id]
        assert [block + 1 for block in sequence.table] == (tables[0] if tables else [])
        assert sequence.status == ("waiting" if waiting else "running"), status
        assert (sequence.prompt_tokens, sequence.preemptions) == (prompt, preemptions)
        if not waiting:
            assert sequence.tokens == tokens
            if state["phase"] == "update":
                assert sequence.computed == computed
    active = sum(1 for refs in state["ref"][1:] if refs)
    assert (blocks.active, blocks.free + blocks.cached) == (active, len(state["free"]))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_owners_ref_counts_and_queue_equal_the_truth_at_every_step(scenario: str) -> None:
    for life in lives(scenario):
        told = Told(life[0])
        assert_view_is_the_truth(told.view, life[0])
        for state in life[1:]:
            told.show(state)
            assert told.view.incomplete_since is None
            assert_view_is_the_truth(told.view, state)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_watcher_who_joins_late_sees_the_same(scenario: str) -> None:
    for life in lives(scenario):
        told = Told(life[0])
        for index, state in enumerate(life[1:]):
            told.show(state)
            if index % 40 == 3:
                late = PoolView()
                snapshot = told.differ.mirror.snapshot(told.differ.teller.last_id)
                late.apply(e.Batch(number=told.number, step=0, monotonic_s=0, wall_s=0, snapshot=snapshot))
                assert_view_is_the_truth(late, state)
                assert late.blocks.fills.tolist() == told.view.blocks.fills.tolist()
                assert late.blocks.owners.tolist() == told.view.blocks.owners.tolist()
                assert late.counters == told.view.counters


def test_row_14_with_true_tables_a_preemption_is_told_in_the_step_it_happens() -> None:
    (life,) = lives("tight")
    told = Told(life[0])
    seen: list[tuple[float, str, int, int]] = []
    for state in life[1:]:
        before = len(told.all_events)
        told.show(state)
        for event in told.all_events[before:]:
            if isinstance(event, e.Preempted):
                name = told.view.sequences[event.seq].request_id
                seen.append((state["ts"], name, event.tokens, event.held))
    truths = [(s["ts"], *preempted) for s in life for preempted in s["preempted"]]
    assert seen == [(ts, request_id, computed, blocks) for ts, request_id, computed, blocks in truths]
    assert [round(ts, 2) for ts, *_ in seen] == [1795950858.56, 1795950883.67]
    assert told.view.counters.preemptions == summary("tight")["num_preemptions_total"]


def test_totals_of_the_told_stream_are_those_of_the_server() -> None:
    (life,) = lives("tight")
    told = Told(life[0])
    for state in life[1:]:
        told.show(state)
    began = sum(request[4] - request[3] for request in life[0]["reqs"])
    finished = [event for event in told.all_events if isinstance(event, e.Finished)]
    assert len(finished) == 14
    assert told.view.counters.generated_tokens + began == sum(event.generated for event in finished)
    evicted = sum(count for event in told.all_events if isinstance(event, e.Evicted) for _, count in event.runs)
    removed = sum(message.payload.count(b"BlockRemoved") for message in messages("tight"))
    assert evicted == removed == 77
    (before,) = PageReader().read(pages("tight")[0].body)
    first = sum(request[3] for request in life[0]["reqs"])  # admitted before the first recorded state
    after, counters = summary("tight"), told.view.counters
    queried = after["prefix_cache_queries_total"] - before.counters["prefix_queried"]
    assert counters.prefix_queried_tokens + first == queried
    assert counters.prefix_hit_tokens == after["prefix_cache_hits_total"] - before.counters["prefix_hit"] == 320
