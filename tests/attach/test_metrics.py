"""Rows 1 to 6, 14 and 16 of the attach cases: what is read from metrics, and what is not made up."""

from __future__ import annotations

import math
import re
import time
from typing import Any

import pytest

from kvtop.attach.exposition import NotMetrics, PageReader, Reading
from kvtop.attach.health import Health
from kvtop.attach.histogram import Histogram, Quantile, merged
from kvtop.attach.scraper import Scraper
from kvtop.attach.server import Scrape, ServerWatch
from kvtop.attach.targets import TargetError, distinct, parse_target, read_targets
from kvtop.view import fleet_words as words
from kvtop.view.fleet import PREEMPTIONS_LAG, FleetRow, fleet_rows, fleet_total, imbalance
from kvtop.view.fleet_findings import fleet_findings
from tests.attach.fake_server import fake_http
from tests.attach.recorded import Page, pages, summary

SERVER = parse_target("test:8000")


def watch_of(*times_and_pages: tuple[float, str]) -> ServerWatch:
    """A watch that scraped these pages at these times."""
    watch = ServerWatch(SERVER)
    for now_s, page in times_and_pages:
        watch.take(Scrape(SERVER, now_s, now_s, 200, page))
    return watch


def row_of(*times_and_pages: tuple[float, str]) -> FleetRow:
    (row,) = fleet_rows([watch_of(*times_and_pages)], times_and_pages[-1][0])
    return row


def played(scenario: str) -> ServerWatch:
    """A watch that scraped a whole recording at its own times."""
    watch = ServerWatch(SERVER)
    for page in pages(scenario):
        watch.take(_scrape(page))
    return watch


def _scrape(page: Page) -> Scrape:
    failure = "" if page.body else "connection refused"
    return Scrape(SERVER, page.t, page.t, 200 if page.body else 0, page.body, failure)


def page_of(*lines: str) -> str:
    return "\n".join(("# HELP x y", *lines, ""))


# --- row 1 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"])
def test_row_1_any_name_of_a_metric_works(name: str) -> None:
    assert row_of((0, page_of(f'{name}{{model_name="m"}} 0.25'))).usage == 0.25


def test_row_1_no_name_of_a_metric_is_unknown_and_not_0() -> None:
    row = row_of((0, page_of('vllm:num_requests_running{engine="0"} 3')))
    assert row.running == 3
    assert row.usage is None and row.preemptions_per_min is None and row.hit_rate is None


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "1e308", "-3"])
def test_row_1_what_is_no_figure_is_unknown(value: str) -> None:
    names = ("kv_cache_usage_perc", "num_requests_running", "generation_tokens_total", "request_success_total")
    row = row_of((0, page_of(*(f'vllm:{name}{{engine="0"}} {value}' for name in names), "vllm:num_requests_waiting 2")))
    assert (row.usage, row.running, row.waiting) == (None, None, 2)


def test_row_1_a_usage_of_more_than_all_is_unknown() -> None:
    assert row_of((0, page_of("vllm:kv_cache_usage_perc 61.5", "vllm:num_requests_running 1"))).usage is None


def test_row_1_both_names_at_once_are_not_added() -> None:
    page = page_of('vllm:gpu_cache_usage_perc{engine="0"} 0.5', 'vllm:kv_cache_usage_perc{engine="0"} 0.5')
    assert row_of((0, page)).usage == 0.5


def test_labels_with_quotes_braces_and_blanks_are_read_by_the_full_parser() -> None:
    page = page_of(r'vllm:num_requests_running{model_name="a \"b\" {c} d",engine="0"} 7')
    row = row_of((0, page), (1, page))
    assert row.running == 7
    assert row.model == 'a "b" {c} d'


# --- row 2 ------------------------------------------------------------------------------------------------------------


def two_ranks(blocks: tuple[int, int] = (1000, 3000)) -> str:
    return page_of(
        *(f'vllm:kv_cache_usage_perc{{engine="{rank}"}} {usage}' for rank, usage in ((0, 0.1), (1, 0.9))),
        *(f'vllm:num_requests_running{{engine="{rank}"}} {running}' for rank, running in ((0, 2), (1, 30))),
        *(f'vllm:cache_config_info{{engine="{r}",num_gpu_blocks="{n}"}} 1.0' for r, n in enumerate(blocks)),
    )


def test_row_2_each_rank_has_a_row_and_the_sum_says_how_it_was_made() -> None:
    rows = fleet_rows([watch_of((0, two_ranks()))], 0)
    assert [(row.rank, row.usage) for row in rows] == [("0", 0.1), ("1", 0.9)]
    total = fleet_total(rows)
    assert total.running == 32
    assert total.usage == pytest.approx((0.1 * 999 + 0.9 * 2999) / 3998)
    assert total.usage_how == "weighted by blocks"


def test_row_2_a_rank_without_blocks_is_not_weighed_and_that_is_said() -> None:
    page = two_ranks() + 'vllm:kv_cache_usage_perc{engine="2"} 0.5\n'
    total = fleet_total(fleet_rows([watch_of((0, page))], 0))
    assert total.usage_how == "weighted by blocks, 2 of 3 ranks"


def test_uneven_ranks_are_found() -> None:
    rows = fleet_rows([watch_of((0, two_ranks()))], 0)
    pair = imbalance(rows)
    assert pair is not None and (pair.fullest.rank, pair.emptiest.rank) == ("1", "0")
    assert "rank 1 at 90%" in fleet_findings(rows)["uneven"].evidence


def test_a_rank_that_is_told_no_more_is_kept_and_marked() -> None:
    only_0 = page_of('vllm:kv_cache_usage_perc{engine="0"} 0.1')
    watch = watch_of((0, two_ranks()), (1, only_0), (2, only_0))
    rows = fleet_rows([watch], 2)
    assert [(row.rank, row.missing, row.age_s) for row in rows] == [("0", False, 0), ("1", True, 2)]
    assert fleet_total(rows).left_out == 1


# --- row 3 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("<html><body>502 Bad Gateway \x1b[31m</body></html>", "it begins '<html><body>502 Bad Gateway ␛[31m"),
        ("", "it is empty"),
        ("   \n", "it is empty"),
        ("OK", "it begins 'OK'"),
        ('{"detail": "not found"}', "it begins"),
        ('node_cpu_seconds_total{cpu="0"} 12.5\n', "none of vLLM or SGLang"),
        ("vllm:num_requests_running twelve\n", "cannot read"),
        ('vllm:num_requests_running{engine="0"} 1 1795950740000\n', "carry timestamps"),
        ('vllm:time_to_first_token_seconds_bucket{le="abc"} 1\n', "'abc' is no bound of a bucket"),
        ('vllm:time_to_first_token_seconds_bucket{le="NaN"} 1\n', "'NaN' is no bound of a bucket"),
    ],
)
def test_row_3_what_is_no_metrics_page_is_said_with_its_first_words(page: str, words: str) -> None:
    with pytest.raises(NotMetrics) as refusal:
        PageReader().read(page)
    assert words in str(refusal.value)
    row = row_of((0, page))
    assert row.state == "refused" and row.is_stale and row.usage is None


# --- row 4 ------------------------------------------------------------------------------------------------------------


def test_row_4_three_missed_scrapes_make_a_server_stale_and_one_answer_makes_it_live() -> None:
    page = two_ranks()
    watch = watch_of((0, page))
    for now_s, state in ((1, "late"), (2, "late"), (3, "stale")):
        watch.take(Scrape(SERVER, now_s, now_s, failure="connection refused"))
        rows = fleet_rows([watch], now_s)
        assert {row.state for row in rows} == {state}
        assert [row.usage for row in rows] == [0.1, 0.9], "the last values stay"
        assert {row.age_s for row in rows} == {now_s}
    assert fleet_total(fleet_rows([watch], 3)).usage is None, "and are not summed as if they were live"
    watch.take(Scrape(SERVER, 4, 4, 200, page))
    assert {row.state for row in fleet_rows([watch], 4)} == {"live"}


def test_row_4_back_off_doubles_up_to_a_bound_and_ends_with_an_answer() -> None:
    health = Health(interval_s=1.0)
    health.answered(0)
    pauses = []
    now_s = health.next_s
    for _ in range(9):
        health.missed(now_s, "gone")
        pauses.append(health.next_s - now_s)
        now_s = health.next_s
    assert pauses == [1, 1, 2, 4, 8, 16, 30, 30, 30]
    health.answered(now_s)
    assert health.next_s - now_s == 1


def test_row_4_a_server_that_dies_and_comes_back_is_followed_over_real_sockets() -> None:
    with fake_http(two_ranks()) as server:
        watch = ServerWatch(parse_target(server.url), interval_s=0.05)
        scraper = Scraper([watch], timeout_s=0.5)
        scraper.start()
        try:
            wait_until(scraper, lambda: watch.health.state == "live")
            server.down()
            wait_until(scraper, lambda: watch.health.state == "stale")
            assert watch.health.reason == "connection refused"
            server.up()
            wait_until(scraper, lambda: watch.health.state == "live")
        finally:
            scraper.close()


def wait_until(scraper: Scraper, holds, timeout_s: float = 5.0) -> None:
    """Poll until ``holds()``."""
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end, "it never came about"
        scraper.poll()
        time.sleep(0.01)


# --- row 5 ------------------------------------------------------------------------------------------------------------


def test_row_5_a_server_that_never_answers_holds_up_neither_polling_nor_closing() -> None:
    with fake_http(two_ranks()) as hung, fake_http(two_ranks()) as fine:
        hung.hangs = True
        watches = [ServerWatch(parse_target(server.url), interval_s=0.05) for server in (hung, fine)]
        scraper = Scraper(watches, timeout_s=30)
        scraper.start()
        wait_until(scraper, lambda: watches[1].health.state == "live" and hung.asked)
        began = time.monotonic()
        scraper.poll()
        assert time.monotonic() - began < 0.1
        scraper.close()
        assert time.monotonic() - began < 0.3
        assert watches[0].health.state == "connecting"


def test_row_5_a_time_out_is_a_missed_scrape() -> None:
    with fake_http(two_ranks()) as server:
        server.hangs = True
        watch = ServerWatch(parse_target(server.url), interval_s=0.05)
        scraper = Scraper([watch], timeout_s=0.1)
        scraper.start()
        try:
            wait_until(scraper, lambda: watch.health.misses > 0)
            assert watch.health.reason == "no answer within 0.1 s"
        finally:
            scraper.close()


# --- row 6 ------------------------------------------------------------------------------------------------------------


def counting(value: float, started: float = 100.0) -> str:
    return page_of(f'vllm:generation_tokens_total{{engine="0"}} {value}', f"process_start_time_seconds {started}")


def test_row_6_a_counter_that_falls_gives_no_rate_for_that_interval() -> None:
    assert row_of((0, counting(1000)), (10, counting(2000))).generated_tokens_per_s == 100
    fallen = ((0, counting(1000)), (10, counting(2000)), (20, counting(50)))
    assert row_of(*fallen).generated_tokens_per_s is None
    assert row_of(*fallen, (30, counting(250))).generated_tokens_per_s == 20


def test_row_6_a_restart_that_counted_past_the_old_value_is_known_by_its_start_time() -> None:
    row = row_of((0, counting(10, started=100.0)), (10, counting(500, started=105.0)))
    assert row.generated_tokens_per_s is None
    assert row.restarted_s_ago == 0


def test_row_6_the_recorded_restart_never_gives_a_negative_rate() -> None:
    watch = ServerWatch(SERVER)
    seen_stale = False
    for page in pages("restart"):
        watch.take(_scrape(page))
        for row in fleet_rows([watch], page.t):
            seen_stale |= row.state == "stale"
            rates = (row.generated_tokens_per_s, row.prompt_tokens_per_s, row.preemptions_per_min, row.hit_rate)
            assert all(rate is None or 0 <= rate < 10_000 for rate in rates)
    assert seen_stale
    assert watch.ranks["0"].restarts == 1
    assert fleet_rows([watch], pages("restart")[-1].t)[0].num_blocks == 95


# --- rows 14 and 16 ---------------------------------------------------------------------------------------------------


def test_row_14_a_steady_preemption_rate_says_that_the_counter_lags() -> None:
    watch = ServerWatch(SERVER)
    found: dict[str, str] = {}
    for page in pages("tight"):
        watch.take(_scrape(page))
        for key, case in fleet_findings(fleet_rows([watch], page.t)).items():
            found[key.partition("/")[0]] = case.evidence
    assert "resumes" in PREEMPTIONS_LAG and PREEMPTIONS_LAG in found["preempts"]
    assert "usage" in found["full"]


def test_row_16_throughput_is_tokens_over_time_and_agrees_with_the_counter() -> None:
    counted = {
        page.t: float(re.findall(r"^vllm:generation_tokens_total\{.*\} (\S+)$", page.body, re.M)[0])
        for page in pages("tight")
    }
    watch = ServerWatch(SERVER)
    checked = 0
    for page in pages("tight"):
        watch.take(_scrape(page))
        (row,) = fleet_rows([watch], page.t)
        if row.generated_tokens_per_s is not None:
            then = min(counted, key=lambda t: abs(t - (page.t - row.span_s)))
            assert row.generated_tokens_per_s * row.span_s == pytest.approx(counted[page.t] - counted[then])
            checked += 1
    assert checked > 200


def test_what_a_recording_tells_at_its_end_is_what_the_server_counted() -> None:
    for scenario in ("shared", "tight"):
        watch = played(scenario)
        last = watch.ranks["0"].last
        assert last is not None
        told = summary(scenario)
        assert last.counters["prefix_queried"] == told["prefix_cache_queries_total"]
        assert last.counters["prefix_hit"] == told["prefix_cache_hits_total"]
        assert last.counters["generated_tokens"] == told["generation_tokens_total"]
        assert last.counters["preemptions"] == told["num_preemptions_total"]
        rate = watch.ranks["0"].hit_rate_since_start()
        assert rate == told["prefix_cache_hits_total"] / told["prefix_cache_queries_total"]


# --- histograms -------------------------------------------------------------------------------------------------------

INF = math.inf


def near(value: float, under: float | None = None) -> Any:
    """A quantile within a bucket, of about this value."""
    return Quantile(pytest.approx(value), under=under)  # type: ignore[arg-type]


def test_a_quantile_of_two_ranks_is_that_of_their_added_buckets() -> None:
    fast = Histogram((0.1, 1.0, INF), (90, 90, 90), 4.5)
    slow = Histogram((0.1, 1.0, INF), (0, 10, 10), 8.0)
    together = merged([fast, slow])
    assert together is not None and together.count == 100
    assert together.quantile(0.5) == near(0.1 * 50 / 90, under=0.1)
    assert together.quantile(0.95) == near(0.1 + 0.9 * 0.5)


def test_different_buckets_are_merged_where_they_agree() -> None:
    together = merged([Histogram((1, 2, INF), (1, 2, 3), 6), Histogram((2, 4, INF), (5, 6, 6), 9)])
    assert together == Histogram((2, INF), (7, 9), 15)


def test_a_quantile_beyond_the_last_bucket_says_more_than() -> None:
    assert Histogram((1, INF), (1, 10), 99).quantile(0.9) == Quantile(1, beyond=True)
    assert Histogram((1, INF), (0, 0), 0).quantile(0.9) is None


def test_a_quantile_in_the_first_bucket_says_less_than() -> None:
    told = Histogram((0.3, 1, INF), (9, 10, 10), 0.1)
    assert (words.time(told.quantile(0.5)), words.time(told.quantile(0.95))) == ("<300ms", "650ms")


def test_the_share_within_a_limit_is_interpolated_and_unknown_beyond_the_buckets() -> None:
    histogram = Histogram((1, 2, INF), (50, 90, 100), 0)
    assert histogram.share_within(1) == 0.5
    assert histogram.share_within(1.5) == pytest.approx(0.7)
    assert histogram.share_within(3) is None


def test_windowed_latencies_forget_what_was_before_the_window() -> None:
    def page(fast: int, slow: int) -> str:
        name = "vllm:time_to_first_token_seconds"
        return page_of(
            f'{name}_bucket{{engine="0",le="0.1"}} {fast}',
            f'{name}_bucket{{engine="0",le="10.0"}} {fast + slow}',
            f'{name}_bucket{{engine="0",le="+Inf"}} {fast + slow}',
            f'{name}_sum{{engine="0"}} 1',
            f'{name}_count{{engine="0"}} {fast + slow}',
        )

    row = row_of((0, page(1000, 0)), (10, page(1000, 0)), (20, page(1000, 10)))
    assert row.quantile("ttft", 0.5) == near(0.1 + 9.9 / 2)


# --- targets ----------------------------------------------------------------------------------------------------------


def test_addresses_are_understood_without_scheme_and_path() -> None:
    assert parse_target("gpu-1:8000").metrics == "http://gpu-1:8000/metrics"
    assert parse_target("https://h/a/metrics").metrics == "https://h/a/metrics"
    assert parse_target("http://[::1]:8000").host == "[::1]"
    assert parse_target("prod = http://h:1/").name == "prod"


@pytest.mark.parametrize("text", ["", "http://", "ftp://h", "http://h:99999", "a b://c"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(TargetError, match="expected the address of a server"):
        parse_target(text)


@pytest.mark.parametrize(
    "text", ["http://me:secret@h:99x/", "me:secret@h:99x", "prod=me:secret@:x", "ftp://me:secret@h"]
)
def test_a_password_in_an_address_that_is_refused_is_not_repeated(text: str) -> None:
    with pytest.raises(TargetError) as refused:
        parse_target(text)
    assert "secret" not in str(refused.value)


def test_a_file_of_targets_is_read_and_a_bad_line_named(tmp_path) -> None:
    path = tmp_path / "targets"
    path.write_text("# mine\na = h1:1\n\nh2:2  # the second\nh2:2\n")
    assert [target.name for target in distinct(read_targets(path))] == ["a", "h2:2"]
    path.write_text("h1:1\nftp://x\n")
    with pytest.raises(TargetError, match="targets, line 2: 'ftp://x'"):
        read_targets(path)


# --- findings ---------------------------------------------------------------------------------------------------------


def found_in(page: str) -> dict[str, str]:
    """Findings over one scrape, by kind."""
    rows = fleet_rows([watch_of((0, page))], 0)
    return {key.partition("/")[0]: case.advice for key, case in fleet_findings(rows).items()}


def load(usage: float, running: int, waiting: int) -> str:
    return page_of(
        f'vllm:kv_cache_usage_perc{{engine="0"}} {usage}',
        f'vllm:num_requests_running{{engine="0"}} {running}',
        f'vllm:num_requests_waiting{{engine="0"}} {waiting}',
    )


def test_requests_that_wait_beside_an_empty_pool_lack_seats_and_beside_a_full_one_blocks() -> None:
    assert "--max-num-seqs" in found_in(load(usage=0.2, running=4, waiting=9))["seats"]
    assert "full" in found_in(load(usage=0.99, running=40, waiting=9))
    assert found_in(load(usage=0.7, running=40, waiting=9)) == {}
    assert found_in(load(usage=0.99, running=40, waiting=0)) == {}


def test_a_silent_server_is_a_finding_of_its_own_and_fires_no_other() -> None:
    watch = watch_of((0, load(usage=0.99, running=40, waiting=9)))
    for now_s in (1, 2, 3):
        watch.take(Scrape(SERVER, now_s, now_s, failure="connection refused"))
    ((key, case),) = fleet_findings(fleet_rows([watch], 3)).items()
    assert key == "silent/test:8000 rank 0"
    assert case.evidence == "connection refused; last heard of 3.0 s ago"


def test_the_blocks_of_a_pool_are_those_that_requests_can_hold_and_a_placeholder_is_none() -> None:
    reading = Reading("vllm", "0", info={"num_gpu_blocks": "1025", "block_size": "16"})
    assert (reading.num_blocks, reading.usable_blocks, reading.capacity_tokens) == (1025, 1024, 1024 * 16)
