"""Device, terminal, models and settings: what is found, and what to do about it."""

import os
from pathlib import Path

import pytest
import torch

from kvtop.doctor import device, models, terminal
from kvtop.doctor.settings import settings_findings
from kvtop.models import resolve
from kvtop.models.store import Store
from kvtop.settings import DEFAULT_MODEL, gather

# --- device


def test_a_cpu_is_shown_with_its_threads_and_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(device, "_GPU_FILES", ())
    finding = device.device_finding("auto")
    assert (finding.state, finding.advice) == ("ok", "")
    assert f"{torch.get_num_threads()} threads on {os.cpu_count()} cores" in finding.value
    assert device.chosen_device("auto") == torch.device("cpu")


def test_cuda_asked_for_and_absent_fails_as_the_engine_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    finding = device.device_finding("cuda")
    assert (finding.state, finding.advice) == ("fail", "--device cpu, or auto")
    assert "cuda was asked for, and torch" in finding.value


def test_a_gpu_that_torch_does_not_see_is_a_warning_unless_the_cpu_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(device, "_GPU_FILES", (tmp_path,))
    finding = device.device_finding("auto")
    assert (finding.state, finding.advice) == ("warn", "install torch for your GPU")
    assert device.device_finding("cpu").state == "ok"


def test_a_gpu_is_shown_with_its_name_and_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (60 * 10**9, 80 * 10**9))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Card 9000")
    assert device.device_finding("auto").value == "cuda: Card 9000, 60.0 GB of 80.0 GB free"
    assert device.chosen_device("auto") == torch.device("cuda")
    assert device.chosen_device("cpu") == torch.device("cpu")


# --- terminal


@pytest.mark.parametrize(
    ("environ", "state", "words"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "ok", "16.7 million colours (TERM=xterm-256color)"),
        ({"TERM": "xterm-256color"}, "ok", "256 colours (TERM=xterm-256color)"),
        ({"TERM": "linux"}, "ok", "16 colours, plain signs only (TERM=linux)"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "ok", "no colours, owners are told apart by their glyphs"),
        ({"TERM": "dumb"}, "warn", "no colours, owners are told apart by their glyphs, plain signs only (TERM=dumb)"),
    ],
)
def test_colours_are_those_the_dashboard_would_find(environ: dict[str, str], state: str, words: str) -> None:
    finding = terminal.colours_finding(environ)
    assert finding.state == state and finding.value.startswith(words)
    assert bool(finding.advice) == (state != "ok")


@pytest.mark.parametrize(
    ("columns", "lines", "state", "words"),
    [
        (120, 36, "ok", "120x36"),
        (80, 24, "ok", "80x24, some panels are left out below 120x36"),
        (39, 12, "warn", "39x12"),
        (40, 11, "warn", "40x11"),
    ],
)
def test_a_terminal_s_size_is_well_from_40x12_on(columns: int, lines: int, state: str, words: str) -> None:
    finding = terminal.size_finding(os.terminal_size((columns, lines)))
    assert (finding.state, finding.value) == (state, words)


def test_no_terminal_is_a_warning_that_names_what_works_without() -> None:
    finding = terminal.size_finding(None)
    assert finding.state == "warn" and "--once" in finding.advice


# --- models


def put_model(root: Path, name: str) -> None:
    (root / name).mkdir(parents=True)
    (root / name / "config.json").write_text("{}")


def test_a_model_that_is_here_is_well_and_one_that_is_not_names_the_pull(tmp_path: Path) -> None:
    store = Store(tmp_path)
    absent = models.model_finding(DEFAULT_MODEL, store)
    assert absent.state == "warn" and f"kvtop model pull {DEFAULT_MODEL}" in absent.advice
    assert models.missing_bytes(DEFAULT_MODEL, store) == 269_060_552
    put_model(tmp_path, DEFAULT_MODEL)
    assert models.model_finding(DEFAULT_MODEL, store).state == "ok"
    assert models.missing_bytes(DEFAULT_MODEL, store) == 0


def test_a_model_that_does_not_exist_fails_with_the_reason(tmp_path: Path) -> None:
    finding = models.model_finding(str(tmp_path / "none"), Store(tmp_path))
    assert finding.state == "fail" and finding.value.endswith("there is no such folder or .gguf file")


def test_a_folder_and_a_gguf_file_need_no_pull(tmp_path: Path) -> None:
    put_model(tmp_path, "mine")
    (tmp_path / "mine" / "model.safetensors").write_text("")
    (tmp_path / "mine.gguf").write_text("GGUF")
    assert models.model_finding(str(tmp_path / "mine"), Store(tmp_path / "store")).state == "ok"
    assert "converted once" in models.model_finding(str(tmp_path / "mine.gguf"), Store(tmp_path / "store")).value


def test_the_store_says_what_it_holds_before_it_exists_too(tmp_path: Path) -> None:
    assert models.store_finding(Store(tmp_path / "a" / "b"), 0).value.startswith(f"{tmp_path}/a/b: 0 models, 0 bytes, ")
    put_model(tmp_path, "one")
    finding = models.store_finding(Store(tmp_path), 0)
    assert finding.state == "ok" and ": 1 model, 2 bytes, " in finding.value


def test_a_pull_that_the_disk_has_no_room_for_is_a_warning(tmp_path: Path) -> None:
    finding = models.store_finding(Store(tmp_path), 10**18)
    assert finding.state == "warn" and "KVTOP_MODEL_DIR" in finding.advice


def test_a_store_that_cannot_be_written_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda place, mode: place != tmp_path)
    finding = models.store_finding(Store(tmp_path / "models"), 0)
    assert finding.state == "warn" and finding.value.endswith("it cannot be written")


def test_the_store_is_the_one_the_engine_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVTOP_MODEL_DIR", str(tmp_path))
    assert models.store_finding(resolve.model_store(), 0).value.startswith(f"{tmp_path}: ")


# --- settings


def test_every_warning_of_file_environment_theme_and_keys_is_a_finding(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[engine]\nblock_size = 24\n[screen]\ntheme = "nope"\n[keys]\nfly = "f"\n')
    (tmp_path / "themes").mkdir()
    (tmp_path / "themes" / "mine.toml").write_text("dark = 3")
    environ = {"KVTOP_CONFIG": str(file), "KVTOP_WATERMARK": "2"}
    first, *rest = settings_findings(gather({}, environ))
    assert (first.state, first.value) == ("ok", str(file))
    assert {(finding.name, finding.state) for finding in rest} == {("settings", "warn")}
    assert all(finding.advice for finding in rest)
    said = " | ".join(finding.value for finding in rest)
    for part in (
        "KVTOP_WATERMARK: is '2'",
        "engine.block_size is 24",
        f"{file}: screen.theme is 'nope', but there is no such theme",
        "mine.toml",
        "keys.fly",
    ):
        assert part in said
    assert len(rest) == 5


def test_no_file_is_well(tmp_path: Path) -> None:
    (only,) = settings_findings(gather({}, {"KVTOP_CONFIG": str(tmp_path / "none.toml")}))
    assert (only.state, only.value) == ("ok", f"{tmp_path}/none.toml (not there: defaults count)")
