"""``kvtop live --engine vllm``: which flags go where, what is refused, and one frame of a stand-in server."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from kvtop import cli
from tests.sources.test_vllm import FAKE_SITE, TOP


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder that looks like a model, and a Python that has the stand-in."""
    monkeypatch.setenv("PYTHONPATH", f"{TOP}:{FAKE_SITE}")
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").touch()
    return str(folder)


def test_one_frame_after_its_traffic_and_nothing_is_left(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    traffic = tmp_path / "load.json"
    requests = [{"id": f"r{i}", "prompt": "what is a page table", "max_tokens": 20, "n": 1} for i in range(3)]
    traffic.write_text(json.dumps({"requests": requests}))
    flags = ("--num-blocks", "24", "--traffic", str(traffic), "--json")
    assert cli.main(["live", "--engine", "vllm", "--model", model, *flags, "--", "--block-size", "8"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["engine"]["device"] == "vLLM cpu" and shown["engine"]["model"] == "stand-in"
    assert (shown["pool"]["num_blocks"], shown["engine"]["block_size"]) == (24, 8)
    assert shown["counters"]["completed"] == 3 and {ended["request_id"] for ended in shown["ended"]} == {
        "r0",
        "r1",
        "r2",
    }
    assert psutil.Process().children(recursive=True) == []


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--engine", "vllm", "--watermark", "0.1"), "--watermark is for kvtop's own engine; vLLM's flags go after --"),
        (("--engine", "vllm", "--sim"), "leave out --engine vllm"),
        (("--engine", "vllm", "--rank", "1"), "--rank is 1, and there are 1 data-parallel ranks"),
        (("--sim", "--control"), "--control goes with --engine vllm"),
        (("--sim", "--rank", "0"), "--rank goes with --engine vllm"),
        (("--sim", "--", "--tensor-parallel-size", "2"), "flags after -- are vLLM's, and go with --engine vllm"),
    ],
)
def test_flags_of_the_other_engine_are_wrong_usage(
    model: str, flags: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["live", "--once", *(("--model", model) if "--sim" not in flags else ()), *flags])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_a_python_without_vllm_is_one_line_with_what_to_do(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--engine", "vllm", "--model", model, "--vllm-python", "/usr/bin/false", "--once")
    assert cli.main(["live", *flags]) == 1
    shown = capsys.readouterr()
    assert shown.err == "kvtop: /usr/bin/false is no Python that answers (JSONDecodeError); see --vllm-python\n"
