"""``kvtop attach`` without a screen: tables, JSON, probes and their exit codes. Row 15 of the attach cases."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from kvtop import cli
from kvtop.attach.conditions import ConditionError, Verdict, parse_condition
from kvtop.attach.kv_watch import KvWatch
from kvtop.attach.replayed_fleet import ReplayedFleet
from kvtop.attach.targets import parse_target
from kvtop.view.fleet import FleetRow, fleet_total
from tests.attach.fake_server import FakeHttp, fake_http
from tests.attach.recorded import pages
from tests.attach.test_metrics import page_of, two_ranks
from tests.attach.test_screens import MATCHING, Exporting, exporting

__all__ = ["exporting"]

DEAD = "127.0.0.1:9"


def attach(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.main(["attach", *arguments, "--interval", "0.05", "--timeout", "2"])
    told = capsys.readouterr()
    return code, told.out, told.err


def recorded_page(index: int = 133) -> str:
    return pages("tight")[index].body


def test_row_15_a_dead_server_and_once_end_with_1_and_the_reason_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = attach(capsys, DEAD, "--once")
    assert code == 1
    assert err == "kvtop: 127.0.0.1:9: connection refused\n"
    assert "127.0.0.1:9" in out


def test_row_15_one_dead_server_among_others_is_1_and_the_others_are_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with fake_http(recorded_page()) as server:
        code, out, err = attach(capsys, server.url, DEAD, "--once", "--json")
    assert code == 1 and "connection refused" in err
    live, dead = json.loads(out)["ranks"]
    assert (live["state"], live["running"]) == ("live", 7.0)
    assert dead["state"] != "live" and dead["running"] is None and dead["usage"] is None


@pytest.mark.parametrize(
    ("status", "page", "words"), [(200, "<html>hi", "not a metrics page"), (503, "x", "HTTP status 503")]
)
def test_row_15_a_server_that_tells_no_metrics_is_1_too(
    status: int, page: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with fake_http(page) as server:
        server.status = status
        code, _, err = attach(capsys, server.url, "--once")
    assert code == 1 and words in err


def test_a_live_server_is_0_and_told_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_http(recorded_page()) as server:
        code, out, err = attach(capsys, server.url, "--once", "--json")
    assert (code, err) == (0, "")
    told: dict[str, Any] = json.loads(out)
    (rank,) = told["ranks"]
    assert (rank["rank"], rank["model"], rank["num_blocks"], rank["capacity_tokens"]) == ("0", "smol", 95, 3072)
    assert rank["waiting_by_reason"] == {"capacity": 1.0, "deferred": 0.0}
    assert rank["ttft_s"]["count"] == 0 and rank["ttft_s"]["p95"] is None
    assert told["total"]["usage_how"] == "weighted by blocks"


def test_the_table_says_how_the_sum_was_made_and_dashes_what_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_http(two_ranks()) as server:
        code, out, _ = attach(capsys, server.url, "--once")
    assert code == 0
    lines = out.splitlines()
    assert "10.0%" in lines[1] and "90.0%" in lines[2] and "70.0%" in lines[3]
    assert lines[3].startswith("2 ranks") and " 32 " in lines[3]
    assert "usage is weighted by blocks" in out and "–" in lines[1]
    assert "load is spread unevenly" in out


def test_without_once_a_line_of_json_comes_every_interval_until_a_condition_ends_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with fake_http(two_ranks()) as server:
        code, out, err = attach(capsys, server.url, "--json", "--fail-if", "usage>0.85 for 0.2s")
    assert code == 1 and "rank 1 has usage 0.9" in err
    assert len([json.loads(line) for line in out.splitlines()]) >= 3


def test_once_waits_as_long_as_a_condition_takes(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_http(two_ranks()) as server:
        began = time.monotonic()
        code, _, err = attach(capsys, server.url, "--once", "--fail-if", "usage>0.85 for 0.4s")
        assert code == 1 and time.monotonic() - began >= 0.4
        assert err == f"kvtop: usage>0.85 for 0.4s: {server.url.removeprefix('http://')} rank 1 has usage 0.9\n"
        began = time.monotonic()
        code, _, _ = attach(capsys, server.url, "--once", "--fail-if", "usage>0.95 for 60s")
        assert code == 0 and time.monotonic() - began < 10, "it does not hold, so there is nothing to wait for"


def test_a_figure_that_is_not_told_fails_a_probe_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_http(page_of('vllm:num_requests_running{engine="0"} 3')) as server:
        code, _, err = attach(capsys, server.url, "--once", "--fail-if", "usage>0.95")
    assert code == 1 and "does not tell usage" in err


def test_nothing_to_count_fulfils_no_condition(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_http(recorded_page()) as server:
        code, _, err = attach(capsys, server.url, "--once", "--fail-if", "hit_rate<0.9", "--fail-if", "ttft_p95>0.1")
    assert (code, err) == (0, "")


def test_a_file_of_targets_names_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with fake_http(recorded_page()) as server:
        (tmp_path / "servers").write_text(f"prod = {server.url}\n")
        code, out, _ = attach(capsys, "--targets", str(tmp_path / "servers"), "--once", "--json")
    assert code == 0 and json.loads(out)["ranks"][0]["server"] == "prod"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name a server"),
        (("ftp://x",), "expected the address of a server"),
        ((DEAD, "--fail-if", "usage is high"), "expected a condition such as"),
        ((DEAD, "--fail-if", "speed>3"), "there is no figure 'speed'"),
        (("--targets", "/nowhere"), "cannot be read"),
        ((DEAD, "--interval", "0"), "--interval"),
        ((DEAD, "--slo", "fast"), "--slo: is 'fast', expected limits such as"),
    ],
)
def test_wrong_usage_is_2(arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = cli.main(["attach", *arguments])
    except SystemExit as end:
        code = int(str(end.code))
    assert code == 2 and words in capsys.readouterr().err


# --- conditions -------------------------------------------------------------------------------------------------------


def test_conditions_are_read_with_their_units() -> None:
    condition = parse_condition("total.usage >= 95% for 2m")
    assert (condition.total, condition.figure, condition.sign) == (True, "usage", ">=")
    assert (condition.limit, condition.for_s) == (0.95, 120)


@pytest.mark.parametrize(
    "text", ["", "usage>", "usage>1.2.3", "usage=1", "usage>1 for", "usage>1 for 3 weeks", "ttft_p0>1"]
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ConditionError):
        parse_condition(text)


def row(rank: str, usage: float) -> FleetRow:
    return FleetRow(server="s", rank=rank, state="live", reason="", age_s=0, usage=usage, num_blocks=10)


def test_a_condition_must_hold_on_end_in_one_place() -> None:
    verdict = Verdict(parse_condition("usage>0.9 for 10s"))

    def judge(now_s: float, *usages: float) -> str:
        rows = [row(str(rank), usage) for rank, usage in enumerate(usages)]
        verdict.judge(rows, fleet_total(rows), now_s)
        return verdict.failed

    assert judge(0, 0.95, 0.1) == ""
    assert judge(9, 0.95, 0.95) == ""
    assert judge(11, 0.5, 0.95) == "", "the first rank recovered in time, the second is full for 2 s only"
    assert verdict.is_open
    assert judge(19, 0.5, 0.95) == "usage>0.9 for 10s: s rank 1 has usage 0.95"


def test_a_page_that_changes_is_followed(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_http(recorded_page(60)) as server:
        play(server)
        code, out, _ = attach(capsys, server.url, "--once", "--json")
    assert code == 0
    assert json.loads(out)["ranks"][0]["generated_tokens_per_s"] > 0


def play(server: FakeHttp) -> None:
    """Each look is answered with the next recorded page."""
    following = iter(pages("tight")[60:])

    class Pages(dict[str, bytes]):
        def get(self, path: str, default: Any = None) -> Any:
            return next(following).body.encode()

    server.pages = Pages()


def test_preemptions_of_the_tables_are_those_since_the_server_started(
    exporting: Exporting, capsys: pytest.CaptureFixture[str]
) -> None:
    with fake_http(MATCHING) as server:
        code, out, _ = attach(capsys, server.url, "--tables", exporting.address, "--once")
    assert code == 0 and "preemptions since the server started" in " ".join(out.split())


def test_wrong_limits_in_the_environment_are_a_warning_and_the_look_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVTOP_SLO", "fast")
    with fake_http(recorded_page()) as server:
        code, out, err = attach(capsys, server.url, "--once")
    assert code == 0 and "live" in out
    assert err.startswith("kvtop: warning: KVTOP_SLO: is 'fast', expected limits such as 'ttft<1 inter_token<0.1'")


def test_where_stdout_is_no_terminal_nothing_is_cut_unless_columns_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    name = "a-server-whose-name-is-longer-than-its-column-may-be"
    with fake_http(recorded_page()) as server:
        _, out, _ = attach(capsys, f"{name} = {server.url}", "--once")
        assert name in out and "…" not in out and "token p50 p95" in out.splitlines()[0]
        monkeypatch.setenv("COLUMNS", "80")
        _, out, _ = attach(capsys, f"{name} = {server.url}", "--once")
        assert name not in out and max(map(len, out.splitlines())) <= 80


def test_a_password_in_an_address_is_sent_and_never_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "new.kvrec"
    with fake_http(recorded_page()) as server:
        address = server.url.replace("http://", "http://user:se@cret@")
        _, out, err = attach(capsys, address, "--once")
        _, as_json, _ = attach(capsys, address, "--once", "--json", "--record", str(path))
        server.status = 401
        code, _, refused = attach(capsys, address, "--once")
    assert code == 1 and "HTTP status 401" in refused
    assert f"127.0.0.1:{server.port}" in out and json.loads(as_json)["ranks"][0]["server"] == f"127.0.0.1:{server.port}"
    assert not any(part in out + err + as_json + refused for part in ("user", "cret"))
    assert parse_target(address).metrics == f"{address}/metrics"
    assert ReplayedFleet(path).servers[0].target.base == server.url


def test_a_refusal_to_name_publishers_tells_no_password() -> None:
    with fake_http() as server:
        server.set_json("/kv_event_sources", {})
        server.status = 401
        target = parse_target(server.url.replace("http://", "http://user:secret@"))
        watch = KvWatch(target)
        watch.start()
        end = time.monotonic() + 5
        while "401" not in watch.no_events and time.monotonic() < end:
            time.sleep(0.01)
        watch.close()
    assert watch.no_events == "it cannot be asked where it publishes: HTTP status 401"
