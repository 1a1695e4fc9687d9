"""``kvtop doctor``: findings as a table or as JSON, an exit code that says whether an engine can run here."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvtop import cli
from kvtop.doctor import examination
from kvtop.doctor.finding import Finding

WITHOUT_ENGINE = """
import importlib.metadata, sys
missing = {"torch", "transformers", "triton", "gguf", "accelerate", "safetensors", "huggingface-hub", "filelock"}
for name in missing:
    sys.modules[name.replace("-", "_")] = None
version = importlib.metadata.version
def without(name):
    if name in missing:
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)
importlib.metadata.version = without
from kvtop.cli import main
code = main(sys.argv[1:])
print([name for name in ("torch", "textual") if sys.modules.get(name)], file=sys.stderr)
sys.exit(code)
"""
"""The program as a watcher has it: every import of the engine's packages fails."""


def doctor(*command: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    environ = os.environ | {"KVTOP_MODEL_DIR": str(tmp_path), "KVTOP_CONFIG": str(tmp_path / "none.toml")}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=120, env=environ)


def by_name(shown: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {finding["name"]: finding for finding in shown["findings"]}


def test_without_torch_it_works_says_what_is_missing_and_ends_with_1(tmp_path: Path) -> None:
    done = doctor("-c", WITHOUT_ENGINE, "doctor", "--json", tmp_path=tmp_path)
    assert done.returncode == 1, done.stderr
    shown = json.loads(done.stdout)
    found = by_name(shown)
    assert shown["engine_can_run"] is False
    for name in ("torch", "transformers"):
        assert found[name]["state"] == "fail" and found[name]["value"].startswith("not installed")
        assert found[name]["advice"] == "pip install 'kvtop-live[engine]'"
    for name in ("device", "kernels", "linears"):
        assert (found[name]["state"], found[name]["value"]) == ("warn", "–")
    assert found["memory bandwidth"]["figures"]["read_bytes_per_second"] > 0
    assert found["engine extra"]["state"] == "warn"
    assert done.stderr.endswith("[]\n"), "it imported torch or Textual"


def test_with_torch_it_tests_the_kernels_and_ends_with_0_without_importing_textual(tmp_path: Path) -> None:
    code = "import sys; from kvtop.cli import main; code = main(['doctor', '--json', '--device', 'cpu']); "
    code += "print('textual' in sys.modules, file=sys.stderr); sys.exit(code)"
    done = doctor("-c", code, tmp_path=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = json.loads(done.stdout)
    found = by_name(shown)
    assert shown["engine_can_run"] is True
    assert found["kernels"]["state"] == "ok" and found["kernels"]["figures"]["cases"] == 5
    assert found["torch"]["state"] == "ok" and "supported: " in found["torch"]["value"]
    assert found["model"]["state"] == "warn" and "kvtop model pull" in found["model"]["advice"]
    assert all(bool(finding["advice"]) == (finding["state"] != "ok") for finding in shown["findings"])
    assert done.stderr.endswith("False\n")


@pytest.mark.parametrize(
    ("state", "code", "verdict"), [("warn", 0, "can run"), ("fail", 1, "No engine can run here: see x")]
)
def test_a_warning_keeps_no_engine_from_running_and_a_failure_does(
    state: Any, code: int, verdict: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = Finding("x", state, "a [red]value\x1b[2J", "do [b]this")
    monkeypatch.setattr(examination, "examine", lambda settings, environ, report: iter([wrong]))
    assert cli.main(["doctor"]) == code
    out = capsys.readouterr().out
    assert verdict in out
    assert "a [red]value␛[2J" in out and "→ do [b]this" in out and "\x1b" not in out
