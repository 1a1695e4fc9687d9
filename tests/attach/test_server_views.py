"""What a server's screen is made of, without a screen: advice, shapes, limits, charts' points, the tree of contents."""

from __future__ import annotations

import pytest

from kvtop.attach.exposition import PageReader, Reading
from kvtop.attach.gpus import is_here, read_gpus
from kvtop.attach.history import RankHistory
from kvtop.attach.kv_events import BlockRemoved, BlockStored
from kvtop.attach.server import Scrape, ServerWatch
from kvtop.attach.targets import TargetError, parse_target
from kvtop.view.finding import Case
from kvtop.view.fleet import FleetRow, fleet_rows
from kvtop.view.fleet_log import FleetLog
from kvtop.view.residency import Residency, Scope
from kvtop.view.residency_tree import content_tree
from kvtop.view.server_advice import server_cases
from kvtop.view.server_facts import finish_shares, largest_request, latencies, max_model_len, shapes
from kvtop.view.slo import parse_slo
from tests.attach.recorded import pages
from tests.attach.test_metrics import page_of

HERE = parse_target("test:8000")


def watched(scenario: str) -> tuple[FleetRow, Reading]:
    """A recorded server at its end, with its last minute."""
    watch = ServerWatch(HERE)
    told = [page for page in pages(scenario) if page.body]
    for page in told:
        watch.take(Scrape(HERE, page.t, page.t, 200, page.body))
    last = watch.ranks["0"].last
    assert last is not None
    return fleet_rows([watch], told[-1].t)[0], last


def test_max_model_len_follows_from_what_vllm_tells_of_its_pool() -> None:
    _, reading = watched("tight")
    assert max_model_len(reading) == 2048


def test_the_largest_request_is_a_bound_by_buckets_and_shapes_are_in_tokens() -> None:
    row, reading = watched("tight")
    longest = largest_request(reading)
    assert longest is not None and longest.value == 700 and not longest.beyond
    assert {shape.name for shape in shapes(row, reading)} == {"prompt_length", "output_length", "max_tokens"}


def test_shares_of_how_requests_ended_leave_out_what_never_came() -> None:
    assert finish_shares({"stop": 3.0, "abort": 0.0, "length": 1.0}) == [("stop", 3.0, 0.75), ("length", 1.0, 0.25)]


def test_latencies_that_are_not_told_are_none_and_not_0() -> None:
    (reading,) = PageReader().read(page_of('vllm:num_requests_running{engine="0"} 3'))
    watch = ServerWatch(HERE)
    watch.take(Scrape(HERE, 0, 0, 200, page_of('vllm:num_requests_running{engine="0"} 3')))
    facts = latencies(fleet_rows([watch], 0.0)[0], parse_slo("ttft<1"))
    assert all(fact.count is None and fact.p50 is None and fact.within is None for fact in facts)
    assert largest_request(reading) is None and max_model_len(reading) is None


def test_a_limit_that_is_missed_names_the_phase_and_the_setting() -> None:
    row, reading = watched("tight")
    cases = server_cases(row, reading, parse_slo("inter_token<0.1"))
    case = cases["slo/inter_token/test:8000 rank 0"]
    assert "within 0.1 s" in case.evidence and case.advice
    assert not server_cases(row, reading, parse_slo("inter_token<60"))


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("ttft<1 inter_token<0.1", {"ttft": 1.0, "inter_token": 0.1}),
        ("e2e < 500ms, queue<2s", {"e2e": 0.5, "queue": 2}),
    ],
)
def test_limits_are_read_with_their_units(text: str, limits: dict[str, float]) -> None:
    assert parse_slo(text) == limits


@pytest.mark.parametrize("text", ["ttft", "ttft>1", "speed<1", "ttft<0", "ttft<x"])
def test_limits_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="limits such as"):
        parse_slo(text)


def test_a_finding_stays_through_a_short_calm_and_passes_after_a_long_one() -> None:
    log, case = FleetLog(), Case("warning", "full", "usage 99%", "add memory")
    log.observe({"full": case}, 10.0)
    log.observe({}, 13.0)
    assert [finding.since_s for finding in log.standing] == [10.0]
    log.observe({"full": case, "worse": Case("problem", "dead", "x", "y")}, 14.0)
    assert [finding.key for finding in log.standing] == ["worse", "full"], "the gravest first"
    log.observe({}, 20.0)
    assert not log.standing and {finding.key for finding in log.past} == {"full", "worse"}


def test_points_of_a_chart_hold_rates_since_the_point_before_and_none_after_a_restart() -> None:
    history = RankHistory()
    for at_s, tokens in ((0.0, 10), (0.5, 12), (2.0, 30), (4.0, 5)):
        lines = ('vllm:kv_cache_usage_perc{engine="0"} 0.5', f'vllm:generation_tokens_total{{engine="0"}} {tokens}')
        (reading,) = PageReader().read(page_of(*lines))
        history.add(at_s, reading)
    points = [(point.at_s, point.usage, point.generated_tokens_per_s) for point in history.trail.points]
    assert points == [(0.0, 0.5, None), (2.0, 0.5, 10.0), (4.0, 0.5, None)]


def test_contents_in_a_row_are_one_branch_and_a_fork_makes_more() -> None:
    residency, scope = Residency(), Scope(0, 0)
    residency.apply(0, BlockStored([1, 2, 3, 4], None, 16))
    residency.apply(0, BlockStored([5, 6], 2, 16))
    rows = content_tree(residency, scope).rows()
    assert [(branch.contents, branch.depth, lead) for branch, lead in rows] == [
        ([1, 2], 0, ""),
        ([3, 4], 2, "├─ "),
        ([5, 6], 2, "└─ "),
    ]
    assert content_tree(residency, scope).contents == 6


def test_a_content_that_may_be_gone_is_a_branch_of_its_own_and_a_lost_parent_a_placeholder() -> None:
    residency, scope = Residency(), Scope(0, 0)
    for _ in range(2):
        residency.apply(0, BlockStored([1, 2], None, 16))
    residency.apply(0, BlockRemoved([2]))
    residency.apply(0, BlockStored([9], 8, 16))
    branches = [branch for branch, _ in content_tree(residency, scope).rows()]
    assert [(branch.contents, branch.certain, branch.at_most) for branch in branches[:2]] == [([1], 1, 2), ([2], 0, 1)]
    assert (branches[2].contents, branches[2].placeholder, branches[3].contents) == ([8], True, [9])


def test_a_target_says_where_its_publishers_and_exporters_are() -> None:
    target = parse_target("a = gpu-1:8000 events=tcp://gpu-1:5557 replay=tcp://gpu-1:5558 topic=kv ranks=2")
    assert (target.name, target.base, target.ranks, target.topic) == ("a", "http://gpu-1:8000", 2, "kv")
    assert target.of_rank(target.events, 1) == "tcp://gpu-1:5558"


@pytest.mark.parametrize("text", ["gpu-1 ranks=0", "gpu-1 tables=5580", "gpu-1 events=http://x:1"])
def test_options_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(TargetError, match="expected"):
        parse_target(text)


class FakeNvml:
    """Two GPUs; the second does not tell its load."""

    class NVMLError(Exception): ...

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetMemoryInfo(self, handle: int):
        return type("Memory", (), {"used": 10 << 30, "total": 80 << 30})

    def nvmlDeviceGetUtilizationRates(self, handle: int):
        if handle:
            raise self.NVMLError
        return type("Load", (), {"gpu": 37})

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "H200"


def test_gpus_are_read_and_an_unknown_load_is_none() -> None:
    gpus = read_gpus(FakeNvml())
    assert [(gpu.index, gpu.used_bytes >> 30, gpu.load) for gpu in gpus] == [(0, 10, 0.37), (1, 10, None)]
    assert is_here(parse_target("localhost:1")) and not is_here(parse_target("gpu-1:1"))
