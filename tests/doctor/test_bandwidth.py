"""Memory bandwidth: measured on more than the caches hold, by the best of several tries."""

import itertools
import os
import time
from pathlib import Path

import numpy as np
import pytest

from kvtop.doctor import bandwidth

MIB = 1 << 20


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))


def test_a_measurement_says_over_how_many_bytes_and_what_a_step_takes_at_least() -> None:
    finding = bandwidth.cpu_finding(weight_bytes=269_060_552, buffer_bytes=64 * MIB)
    figures = finding.figures
    assert (finding.state, finding.advice) == ("ok", "")
    assert figures["buffer_bytes"] == 64 * MIB
    # between a slow, busy machine and the fastest there are
    assert 1e7 < figures["read_bytes_per_second"] < 5e12
    assert 1e7 < figures["copy_bytes_per_second"] < 5e12
    assert finding.value.startswith("measured: read ") and "over 67.1 MB" in finding.value
    step_ms = 269_060_552 / figures["read_bytes_per_second"] * 1e3
    assert finding.value.endswith(f"takes {step_ms:.3g} ms at least")


def test_a_busy_machine_is_a_warning_to_measure_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (99.5, 0.0, 0.0))
    finding = bandwidth.cpu_finding(weight_bytes=0, buffer_bytes=MIB)
    assert finding.state == "warn" and finding.value.endswith("at a load of 99.5")
    assert "measure again" in finding.advice


def test_a_model_of_unknown_size_gets_no_time_a_step() -> None:
    assert "weights" not in bandwidth.cpu_finding(weight_bytes=0, buffer_bytes=MIB).value


def test_every_number_is_read_and_copied() -> None:
    source, target = np.arange(100_003), np.zeros(100_003, dtype=np.int64)
    for place in (0, 50_000, 100_002):
        source[place] = 200_000 + place
        read, copy = bandwidth.on_every_core(source, target)
        assert read() == 200_000 + place
    copy()
    assert (target == source).all()


def test_no_memory_is_a_warning_and_no_figure() -> None:
    def none(size: int) -> tuple[bandwidth.Work, bandwidth.Work]:
        raise MemoryError

    finding = bandwidth._measured(MIB, none, 0)
    assert (finding.state, finding.value, finding.figures) == ("warn", "–", {})
    assert "could not be had" in finding.advice


def test_the_best_of_at_least_three_tries_counts_after_one_that_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.accumulate([0, 3, 0, 1, 0, 2])  # what the three counted tries take
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    runs = []
    assert bandwidth.best_seconds(lambda: runs.append(1), least_seconds=0) == 1
    assert len(runs) == 4


def test_tries_go_on_until_they_have_taken_the_time_they_should(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    runs = []
    bandwidth.best_seconds(lambda: runs.append(1), least_seconds=10)
    assert len(runs) == 11


def test_the_buffer_is_several_times_the_caches_within_an_eighth_of_the_free_memory() -> None:
    assert bandwidth.buffer_size(caches=32 * MIB, available=100_000 * MIB) == 256 * MIB
    assert bandwidth.buffer_size(caches=1024 * MIB, available=100_000 * MIB) == 4096 * MIB
    assert bandwidth.buffer_size(caches=1024 * MIB, available=8000 * MIB) == 1000 * MIB
    assert bandwidth.buffer_size(caches=0, available=0) == MIB


def test_caches_are_counted_once_however_many_cores_share_them(tmp_path: Path) -> None:
    for cpu, shared in enumerate(("0-1", "0-1", "2-3", "2-3")):
        for index, (level, shared_by, size) in enumerate(((1, str(cpu), "32K"), (3, shared, "16384K"))):
            folder = tmp_path / f"cpu{cpu}" / "cache" / f"index{index}"
            folder.mkdir(parents=True)
            (folder / "level").write_text(f"{level}\n")
            (folder / "shared_cpu_list").write_text(f"{shared_by}\n")
            (folder / "size").write_text(f"{size}\n")
    assert bandwidth.cache_bytes(tmp_path) == 32 * MIB
    assert bandwidth.cache_bytes(tmp_path / "none") == 0
