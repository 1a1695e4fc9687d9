"""Whatever happens to a request's blocks, its tokens are those it would have had alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvtop.engine.config import POLICIES, PREEMPT_MODES, VICTIM_RULES
from kvtop.engine.control import Abort, ClearCache, Preempt, Set, SetPriority
from kvtop.engine.events import Completed, PreemptMode, Rejected
from kvtop.engine.requests import Request
from tests.engine.fake_runner import beam_oracle, oracle
from tests.engine.harness import Harness

RUNS = int(os.environ.get("ORACLE_RUNS", "250"))

Draw = Callable[[st.SearchStrategy[Any]], Any]


@st.composite
def configs(draw: st.DrawFn) -> dict[str, object]:
    return {
        "num_blocks": draw(st.integers(1, 12)),
        "block_size": draw(st.sampled_from([1, 2, 4])),
        "swap_blocks": draw(st.integers(0, 12)),
        "max_num_seqs": draw(st.integers(1, 6)),
        "max_num_batched_tokens": draw(st.sampled_from([1, 2, 3, 7, 64])),
        "max_model_len": draw(st.sampled_from([9, 10, 24])),
        "policy": draw(st.sampled_from([POLICIES[0], *POLICIES])),
        "preempt": draw(st.sampled_from(PREEMPT_MODES)),
        "victim": draw(st.sampled_from(VICTIM_RULES)),
        "watermark": draw(st.sampled_from([0.0, 0.0, 0.1, 0.5])),
        "prefix_cache": draw(st.booleans()),
        "max_preemptions": draw(st.sampled_from([1, 2, 20])),
    }


def draw_request(draw: Draw, name: str) -> Request:
    kind = draw(st.sampled_from(["one", "one", "one", "samples", "beams"]))
    # few distinct tokens and a common start: prefixes are shared all the time
    prompt = [1, 2, 3, 4, 5, 6][: draw(st.integers(0, 6))] + draw(st.lists(st.integers(0, 2), min_size=1, max_size=8))
    return Request(
        id=name,
        prompt_token_ids=prompt,
        max_tokens=draw(st.integers(1, 9)),
        n=draw(st.integers(2, 4)) if kind == "samples" else 1,
        beam_width=draw(st.integers(2, 3)) if kind == "beams" else 0,
        temperature=1.0 if kind == "samples" else 0.0,
        seed=draw(st.integers(0, 3)),
        priority=draw(st.integers(0, 2)),
        stop_token_ids=draw(st.sampled_from([[], [], [3], [7, 11]])),
        salt=draw(st.sampled_from(["", "", "other"])),
    )


@settings(max_examples=RUNS, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_tokens_do_not_depend_on_memory_neighbours_or_the_operator(data: st.DataObject) -> None:
    harness = Harness(**data.draw(configs()))
    asked: list[Request] = [draw_request(data.draw, f"r{i}") for i in range(data.draw(st.integers(1, 5)))]
    arriving = list(asked)
    aborted: set[str] = set()
    for _ in range(50):
        arrives: bool = data.draw(st.booleans())
        if arriving and (arrives or not harness.engine.has_work):
            harness.add(arriving.pop(0))
        _let_the_operator_act(data, harness, aborted)
        harness.step()
    while arriving:
        harness.add(arriving.pop(0))
    harness.drain()
    for request in asked:
        if request.id not in aborted:
            _compare_with_oracle(harness, request)


def _let_the_operator_act(data: st.DataObject, harness: Harness, aborted: set[str]) -> None:
    running = [sequence.seq for sequence in harness.scheduler.roster.running]
    match data.draw(st.sampled_from(["", "", "", "", "preempt", "abort", "clear", "set", "priority"])):
        case "preempt" if running:
            mode: PreemptMode = data.draw(st.sampled_from(PREEMPT_MODES))
            harness.send(Preempt(seq=data.draw(st.sampled_from(running)), mode=mode))
        case "abort" if harness.scheduler.roster.groups:
            victim = data.draw(st.sampled_from(list(harness.scheduler.roster.groups)))
            assert not harness.send(Abort(request_id=victim)).error
            assert harness.send(Abort(request_id=victim)).error, "abort twice is abort once"
            aborted.add(victim)
        case "clear":
            harness.send(ClearCache())
        case "set":
            harness.send(Set(name="watermark", value=data.draw(st.sampled_from(["0", "0.25"]))))
            harness.send(Set(name="max_num_batched_tokens", value=data.draw(st.sampled_from(["1", "5"]))))
        case "priority" if harness.scheduler.roster.groups:
            request_id = data.draw(st.sampled_from(list(harness.scheduler.roster.groups)))
            harness.send(SetPriority(request_id=request_id, priority=data.draw(st.integers(0, 2))))


def _compare_with_oracle(harness: Harness, request: Request) -> None:
    prompt, limit = request.prompt_token_ids or [], harness.config.max_model_len
    end = harness.ended[request.id]
    if isinstance(end, Rejected):
        assert request.id not in harness.outputs
        return
    assert isinstance(end, Completed)
    if request.beam_width:
        if "pool_exhausted" not in end.reasons:
            assert end.answer == beam_oracle(request, prompt, limit)
        return
    for index, tokens in harness.outputs[request.id].items():
        expected = oracle(request, prompt, limit, index)
        if end.reasons[index] == "pool_exhausted":
            assert tokens == expected[: len(tokens)], "what was generated before the pool was exhausted is kept"
        else:
            assert tokens == expected
            assert end.reasons[index] == ("stop" if tokens[-1] in request.stop_token_ids else "length")
    if "pool_exhausted" not in end.reasons:
        assert len(end.reasons) == len(harness.outputs[request.id]) == request.n
