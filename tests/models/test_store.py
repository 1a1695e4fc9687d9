"""A model is in the store whole or not at all, whatever interrupts its making."""

import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from kvtop.failure import Failure
from kvtop.models.progress import no_report, run_watched
from kvtop.models.store import Store, write_origin


def make_model(folder: Path, text: str = "{}") -> None:
    (folder / "model.safetensors").write_bytes(b"weights")
    write_origin(folder, "org/name", "a test", ["a note"])
    (folder / "config.json").write_text(text)


def test_a_staged_model_appears_as_one_folder_when_it_is_done(tmp_path: Path) -> None:
    store = Store(tmp_path / "models")
    with store.staging("org/name", no_report) as staged:
        assert staged is not None
        make_model(staged)
        assert store.get("org/name") is None
    assert store.get("org/name") == tmp_path / "models" / "org--name"
    (model,) = store.installed()
    assert (model.name, model.origin, model.notes) == ("org/name", "a test", ("a note",))
    assert model.size_bytes == sum(file.stat().st_size for file in model.path.iterdir())


def test_a_making_that_fails_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(Failure, match="no network"), store.staging("a", no_report) as staged:
        assert staged is not None
        make_model(staged)
        raise Failure("no network")
    assert store.get("a") is None
    assert store.installed() == []
    assert not list(tmp_path.rglob("*.safetensors"))


def test_a_killed_making_leaves_no_model_and_the_next_one_clears_up_and_succeeds(tmp_path: Path) -> None:
    code = textwrap.dedent("""
        import sys, time
        from pathlib import Path
        from kvtop.models.progress import no_report
        from kvtop.models.store import Store
        with Store(Path(sys.argv[1])).staging("a", no_report) as staged:
            (staged / "config.json").write_text("{}")
            (staged / "half.safetensors").write_text("half")
            print("half done", flush=True)
            time.sleep(60)
    """)
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half done\n"
        process.send_signal(signal.SIGKILL)
    store = Store(tmp_path)
    assert store.get("a") is None
    assert store.installed() == []
    with store.staging("a", no_report) as staged:
        assert staged is not None
        make_model(staged)
    assert sorted(file.name for file in store.place("a").iterdir()) == [
        "config.json",
        "kvtop.json",
        "model.safetensors",
    ]
    assert not list(tmp_path.rglob("half.safetensors"))


def test_of_two_at_once_the_second_waits_and_finds_the_work_done(tmp_path: Path) -> None:
    store = Store(tmp_path)
    inside, reported = threading.Event(), []
    found: list[Path | None] = []

    def second() -> None:
        inside.wait(5)
        with Store(tmp_path).staging("a", lambda detail, done, total: reported.append(detail)) as staged:
            found.append(staged)

    thread = threading.Thread(target=second)
    thread.start()
    with store.staging("a", no_report) as staged:
        assert staged is not None
        inside.set()
        deadline = time.monotonic() + 5
        while not reported and time.monotonic() < deadline:
            time.sleep(0.01)
        make_model(staged)
    thread.join(5)
    assert found == [None]
    assert reported == ["waiting for another pull of a"]


def test_models_whose_names_begin_alike_do_not_clear_each_other_s_staging(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.staging("a-b", no_report) as long_name, store.staging("a", no_report) as short_name:
        assert long_name is not None
        assert short_name is not None
        assert long_name.is_dir()
        make_model(long_name)
        make_model(short_name)
    assert store.get("a") is not None
    assert store.get("a-b") is not None


def test_a_store_that_cannot_be_written_is_a_failure_that_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(Failure, match=r"cannot write to the model folder .*; set KVTOP_MODEL_DIR"),
        Store(tmp_path / "file" / "models").staging("a", no_report),
    ):
        pass


def test_a_folder_put_there_by_hand_is_a_model_without_an_origin(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    (model,) = Store(tmp_path).installed()
    assert (model.name, model.origin, model.size_bytes) == ("mine", "", 2)


def test_watched_work_reports_the_bytes_it_has_written_and_raises_what_it_raised(tmp_path: Path) -> None:
    reports: list[tuple[float, float]] = []

    def work() -> None:
        (tmp_path / "a").write_bytes(b"x" * 40)
        time.sleep(0.5)
        raise ValueError("broke off")

    with pytest.raises(ValueError, match="broke off"):
        run_watched(work, tmp_path, 100, "writing", lambda detail, done, total: reports.append((done, total)))
    assert (40, 100) in reports
    assert (100, 100) not in reports
