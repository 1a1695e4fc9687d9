import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ["machine", "agreement", "tuning", "kernels", "same tokens", "whole model"]


def gpu_check(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu_check", *arguments],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def dry_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """The JSON and the tables of a run at toy sizes through the interpreter."""
    out = tmp_path_factory.mktemp("gpu_check") / "gpu.json"
    done = gpu_check("--dry-run", "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(out.read_text(encoding="utf-8")), done.stdout


def test_without_a_gpu_it_says_so_in_one_line_and_ends_with_1():
    done = gpu_check()
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "gpu_check: no GPU: torch sees none; run it on a machine with one, or with --dry-run"
    ]


def test_a_dry_run_goes_through_every_part_without_an_error(dry_run):
    report, _ = dry_run
    assert report["errors"] == {}
    assert [name for name in PARTS if name in report] == PARTS


def test_the_kernels_agree_and_no_token_changes_under_preemption_by_swap(dry_run):
    report, _ = dry_run
    assert report["agreement"]
    assert all(row["agrees"] for row in report["agreement"])
    swapped = report["same tokens"][-1]
    assert swapped["equal"]
    assert swapped["preemptions"] > 0
    assert swapped["swapped_blocks"] > 0


def test_every_point_of_the_sweep_has_a_time(dry_run):
    report, _ = dry_run
    rows = report["kernels"]["decode"]
    assert {(row["batch"], row["page"]) for row in rows} == {(1, 8), (1, 16), (2, 8), (2, 16)}
    assert all(row["microseconds"] > 0 for row in rows)


def test_the_tables_name_what_was_measured(dry_run):
    _, tables = dry_run
    for title in (
        "decode attention",
        "prefill attention",
        "movement",
        "same tokens",
        "whole decode steps",
        "whole prefill",
    ):
        assert title in tables
