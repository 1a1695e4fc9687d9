"""kvtop sim: what it prints, for programs and for people, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from typing import Any

import pytest

from kvtop import cli
from kvtop.lab import runs
from kvtop.lab.combinations import combinations
from tests.lab.plain import plain

KEYS = [
    *("policy", "block_size", "pool_tokens", "requests", "steps", "mean_running", "kv_utilization", "preemptions"),
    *("recomputed_tokens", "prefilled_tokens", "decoded_tokens", "total_work_tokens"),
]
SMALL = ("--requests", "60", "--pool-tokens", "12000")


def sim(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.main(["sim", *arguments]) == 0
    return capsys.readouterr().out


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(sim(capsys, *SMALL, "--json", *arguments))
    return listed


def test_the_rows_are_those_of_the_published_table_in_its_order_unrounded(capsys: pytest.CaptureFixture[str]) -> None:
    listed = rows(capsys, "--published", "--seed", "5")
    expected = [("reserve-max-model-len", 16), ("reserve-prompt-max-tokens", 16), ("paged", 256), ("paged", 16)]
    assert [list(figures) for figures in listed] == [KEYS] * 4
    assert listed == [plain(policy, size, requests=60, pool_tokens=12_000, seed=5) for policy, size in expected]


def test_several_values_make_rows_and_what_a_policy_takes_no_notice_of_makes_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sizes = [figures["block_size"] for figures in rows(capsys, "--policy", "paged", "--block-size", "16,32,64")]
    assert sizes == [16, 32, 64]
    assert [figures["block_size"] for figures in rows(capsys, "--block-size", "8,4")] == [None, None, 8, 4]
    listed = rows(capsys, "--placement", "counted,first-fit", "--watermark", "0,5%", "--block-size", "16")
    chosen = [(figures["policy"], figures["placement"], figures["watermark"]) for figures in listed]
    assert chosen.count(("paged", "counted", 0.05)) == 1
    assert ("paged", "first-fit", 0.05) not in chosen
    assert ("reserve-max-model-len", "first-fit", 0.0) in chosen
    assert len(chosen) == 2 * 2 * 2 + 2


def test_csv_has_the_same_figures_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    listed = rows(capsys, "--charge-recompute", "--seed", "1,2")
    lines = list(csv.DictReader(io.StringIO(sim(capsys, *SMALL, "--csv", "--charge-recompute", "--seed", "1,2"))))
    assert [line["seed"] for line in lines] == [str(figures["seed"]) for figures in listed]
    assert [float(line["mean_running"]) for line in lines] == [figures["mean_running"] for figures in listed]
    assert [float(line["cost_seconds"]) for line in lines] == [figures["cost"]["seconds"] for figures in listed]


def test_charging_recompute_changes_no_schedule_and_adds_its_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    (free,) = rows(capsys, "--policy", "paged", "--block-size", "16", "--card", "h200")
    (charged,) = rows(capsys, "--policy", "paged", "--block-size", "16", "--card", "h200", "--charge-recompute")
    assert free["preemptions"] > 0
    assert [free[key] for key in KEYS] == [charged[key] for key in KEYS]
    assert charged["cost"]["seconds"] > free["cost"]["seconds"]
    assert charged["cost"]["stall_p50_s"] > free["cost"]["stall_p50_s"]


def test_every_number_of_the_cost_model_can_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    row = ("--policy", "paged", "--block-size", "16")
    (slow,) = rows(capsys, *row, "--bandwidth-bytes-per-s", "1GB", "--pcie-bytes-per-s", "2GB")
    (fast,) = rows(capsys, *row, "--bandwidth-bytes-per-s", "1000GB", "--weights-bytes", "1GB")
    assert slow["cost"]["seconds"] > 50 * fast["cost"]["seconds"]
    assert slow["cost"]["swap_seconds"] == pytest.approx(2 * slow["recomputed_tokens"] * 131_072 / 2e9)


def test_people_get_a_table_a_chart_and_the_fault_named(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(sim(capsys, *SMALL, "--published", "--card", "80gb").split())
    assert "reserve prompt + max_tokens" in text
    assert "█" in text
    assert "recompute not charged" in text
    assert "its fault included" in text
    assert "its fault included" not in sim(capsys, *SMALL)


def test_requests_that_did_not_run_are_said_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sim", "--json", "--requests", "60", "--policy", "paged", "--pool-tokens", "2000"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)
    assert "requests could never run and were rejected" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--block-size", "16,24"], "--block-size: is '24', expected a power of two from 1 to 256"),
        (["--policy", "paged,lru"], "--policy: is 'lru', expected one of"),
        (["--output-median", "0"], "--output-median: is '0', expected a number above 0"),
        (["--watermark", "1"], "--watermark: is '1', expected a share"),
        (["--pool-tokens", "100"], "--pool-tokens 100 holds no block of 256 tokens"),
        (["--published", "--watermark", "0.05"], "--published is one fixed rule; leave --watermark out"),
        (["--published", "--requests", "60", "--pool-tokens", "2000"], "the published program has no rule for that"),
        (["--json", "--csv"], "not allowed with argument"),
        (["--bandwidth-bytes-per-s", "0"], "--bandwidth-bytes-per-s is 0, expected above 0"),
    ],
)
def test_bad_input_is_wrong_usage_with_a_clear_word(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["sim", *arguments])
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert not out
    assert words in err


def test_rows_come_out_alike_from_one_process_and_from_several(monkeypatch: pytest.MonkeyPatch) -> None:
    experiments = combinations({"requests": [60], "pool_tokens": [12_000]})
    monkeypatch.setattr(runs, "usable_cores", lambda: 1)
    alone = runs.run_all(experiments, published=True)
    monkeypatch.setattr(runs, "usable_cores", lambda: 3)
    assert runs.run_all(experiments, published=True) == alone


def test_the_lab_loads_neither_torch_nor_transformers() -> None:
    code = (
        "import sys\n"
        "from kvtop.cli import main\n"
        "main(['sim', '--requests', '20', '--published', '--charge-recompute'])\n"
        "print('loaded', [name for name in ('torch', 'transformers', 'textual', 'numpy') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.endswith("loaded []\n"), done.stdout + done.stderr


# --- --live -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--live", "--json"), "not allowed with argument"),
        (("--live", "--block-size", "1,2,4,8,16", "--policy", "paged"), "up to 4 side by side, these flags make 5"),
        (("--live", "--charge-recompute"), "leave the cost model's flags out"),
        (("--live", "--published", "--pool-tokens", "5000"), "slots, --pool-tokens is 5,000"),
    ],
)
def test_what_cannot_be_watched_is_refused(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["sim", *arguments])
    assert left.value.code == 2 and words in capsys.readouterr().err


def test_live_without_a_terminal_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sim", "--live"]) == 1
    assert "without --live it prints a table" in capsys.readouterr().err


def test_flags_put_their_rows_before_the_lab_s_own_presets() -> None:
    from kvtop.commands.sim_live import presets_for
    from kvtop.lab.presets import PRESETS

    assert presets_for(combinations({}), given=False, published=False) == list(PRESETS)
    rows = combinations({"policy": ["paged"], "block_size": [16, 32], "requests": [20]})
    own, *others = presets_for(rows, given=True, published=False)
    assert [lane.title for lane in own.build()] == ["paged, 16-token blocks", "paged, 32-token blocks"]
    assert others == list(PRESETS)


def test_the_pool_is_announced_as_a_serving_engine_does_in_blocks_of_16_and_32(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["sim", "--requests", "20", "--policy", "paged", "--json"]) == 0
    said = capsys.readouterr().err
    assert "pool: 24,795 blocks of 16 tokens, 48.4 GiB (128 KiB a token)" in said
    assert "room for 396,720 tokens: at most 48 requests of max_model_len 8,192" in said
    assert "in blocks of 32 tokens it would be 12,397 blocks, 396,704 tokens, at most 48 such requests" in said
    assert cli.main(["sim", "--requests", "20", "--policy", "paged", "--pool-tokens", "9000,10000"]) == 0
    assert "pool:" not in capsys.readouterr().err
