"""``kvtop serve`` as people start and end it, and ``kvtop live --listen`` beside its dashboard."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psutil
import pytest

from kvtop.engine.control import BatchMessage
from kvtop.sources.exported import ExportedSource
from kvtop.view.pool_view import PoolView
from tests.app.test_terminal import Terminal

PATIENCE_SECONDS = 20


class Command:
    """``kvtop serve --sim`` with its engine, as a process of its own."""

    def __init__(self, *flags: str) -> None:
        command = [sys.executable, "-m", "kvtop", "serve", "--sim", "--port", "0", "--num-blocks", "64", *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.said: list[str] = []
        for line in self.process.stderr:
            self.said.append(line)
            if "watch it with" in line:
                break
        (self.url,) = re.findall(r"kvtop attach (http://\S+)", "".join(self.said)) or [""]

    @property
    def engine(self) -> psutil.Process:
        (engine,) = psutil.Process(self.process.pid).children()
        return engine

    def stream(self, **fields: object) -> Iterator[str]:
        """The data of a call's stream."""
        body = {"model": "simulated Llama-3-8B", "prompt": "page", "stream": True, "ignore_eos": True, **fields}
        with httpx2.stream("POST", f"{self.url}/v1/completions", json=body, timeout=20, trust_env=False) as answer:
            for line in answer.iter_lines():
                if line:
                    yield line.removeprefix("data: ")

    def metrics(self) -> str:
        return httpx2.get(f"{self.url}/metrics", trust_env=False).text

    def end(self) -> tuple[int, str]:
        """Its exit code, and what it still said."""
        out, said = self.process.communicate(timeout=PATIENCE_SECONDS)
        assert out == "", "data goes to stdout, and there is none"
        return self.process.returncode, said


@pytest.fixture
def command() -> Iterator[Command]:
    command = Command()
    yield command
    command.process.kill()
    command.process.communicate()


def test_it_says_where_it_serves_and_ends_at_once_when_nothing_is_open(command: Command) -> None:
    assert any(
        "serving simulated Llama-3-8B, 64 blocks of 16 tokens at http://127.0.0.1:" in line for line in command.said
    )
    assert httpx2.get(f"{command.url}/health", trust_env=False).json() == {"status": "ok", "engine": "idle"}
    engine = command.engine
    began_s = time.monotonic()
    command.process.send_signal(signal.SIGTERM)
    code, said = command.end()
    assert (code, said) == (0, "")
    assert time.monotonic() - began_s < 3
    assert not engine.is_running()


def test_a_terminated_server_ends_open_calls_whole_and_takes_no_new_ones(command: Command) -> None:
    stream = command.stream(max_tokens=60)
    next(stream)
    command.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{command.url}/health", trust_env=False)
    rest = list(stream)
    assert rest[-1] == "[DONE]" and json.loads(rest[-2])["choices"][0]["finish_reason"] == "length"
    assert len(rest) == 59 + 2
    code, said = command.end()
    assert code == 0
    assert "1 calls may go on for 30 s" in said


def test_a_second_signal_cuts_off_what_is_open_and_an_interrupt_ends_with_130(command: Command) -> None:
    stream = command.stream(max_tokens=900)
    next(stream)
    command.process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    command.process.send_signal(signal.SIGINT)
    rest = list(stream)
    assert json.loads(rest[-2])["error"]["message"] == "the engine has stopped: the server ends"
    assert command.end()[0] == 130


def test_calls_still_open_after_the_drain_are_told_that_the_server_ends() -> None:
    command = Command("--drain", "1")
    try:
        stream = command.stream(max_tokens=900)
        next(stream)
        body = {"model": "simulated Llama-3-8B", "prompt": "page", "max_tokens": 900, "ignore_eos": True}
        answers: list[httpx2.Response] = []
        asking = threading.Thread(
            target=lambda: answers.append(
                httpx2.post(f"{command.url}/v1/completions", json=body, timeout=20, trust_env=False)
            )
        )
        asking.start()
        while not re.search(r"num_requests_running\{.*\} 2\.0", command.metrics()):
            next(stream)
        command.process.send_signal(signal.SIGTERM)
        rest = list(stream)
        asking.join(PATIENCE_SECONDS)
        assert rest[-1] == "[DONE]"
        assert json.loads(rest[-2])["error"]["message"] == "the engine has stopped: the server ends"
        (answer,) = answers
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "engine_gone")
        assert command.end() == (0, "kvtop: ending; 2 calls may go on for 1 s\n")
    finally:
        command.process.kill()
        command.process.communicate()


def test_a_client_that_leaves_in_the_middle_of_its_body_leaves_no_word_at_the_server(command: Command) -> None:
    host, port = command.url.removeprefix("http://").split(":")
    for path in ("/v1/completions", "/v1/chat/completions", "/tokenize"):
        with socket.create_connection((host, int(port)), PATIENCE_SECONDS) as client:
            client.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{{".encode())
            time.sleep(0.1)  # for the call to be under way
    assert httpx2.get(f"{command.url}/health", trust_env=False).status_code == 200
    time.sleep(0.1)
    command.process.send_signal(signal.SIGTERM)
    assert command.end() == (0, "")


def test_an_engine_that_is_killed_ends_the_command_with_1_and_the_reason(command: Command) -> None:
    stream = command.stream(max_tokens=900)
    next(stream)
    command.engine.kill()
    assert "killed by SIGKILL" in json.loads(list(stream)[-2])["error"]["message"]
    code, said = command.end()
    assert code == 1
    assert said == "kvtop: the engine has failed: the engine process was killed by SIGKILL\n"


def test_what_others_on_the_network_could_do_is_said() -> None:
    command = Command("--host", "0.0.0.0", "--watch-host", "0.0.0.0")
    try:
        said = "".join(command.said)
        assert "warning: whoever reaches 0.0.0.0 can use the model; set KVTOP_API_KEY to ask for a key" in said
        assert "warning: whoever reaches 0.0.0.0 can read requests and answers from the tables told there" in said
        assert command.url.startswith("http://127.0.0.1:")
        told = httpx2.get(f"{command.url}/kvtop_sources", trust_env=False).json()["0"]["endpoint"]
        assert told.startswith("tcp://*:")
    finally:
        command.process.terminate()
        assert command.end()[0] == 0


def test_an_address_in_use_is_said_before_anything_is_loaded(command: Command) -> None:
    port = command.url.rpartition(":")[2]
    second = [sys.executable, "-m", "kvtop", "serve", "--sim", "--port", port]
    done = subprocess.run(second, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 1
    assert done.stderr == f"kvtop: 127.0.0.1:{port}: cannot be listened at: Address already in use\n"


def test_clients_are_answered_beside_the_dashboard_and_a_second_terminal_sees_the_true_tables(tmp_path: Path) -> None:
    flags = ("live", "--sim", "--num-blocks", "64", "--listen", "0")
    terminal = Terminal(tmp_path / "pid", command=[sys.executable, "-m", "kvtop", *flags])
    try:
        terminal.wait_for("http://127.0.0.1:")
        terminal.read(0.3)
        url = re.findall(r"http://127\.0\.0\.1:\d+", terminal.output)[-1]
        body = {"model": "simulated Llama-3-8B", "prompt": "page", "max_tokens": 200, "ignore_eos": True, "seed": 1}
        answers: list[httpx2.Response] = []
        asking = threading.Thread(
            target=lambda: answers.append(httpx2.post(f"{url}/v1/completions", json=body, timeout=20, trust_env=False))
        )
        asking.start()
        terminal.wait_for("cmpl-")  # among the sequences
        port = httpx2.get(f"{url}/kvtop_sources", trust_env=False).json()["0"]["endpoint"].rpartition(":")[2]
        second = ExportedSource(f"tcp://127.0.0.1:{port}")
        second.start()
        view = PoolView()
        end_s = time.monotonic() + PATIENCE_SECONDS
        while not any(sequence.table for sequence in view.sequences.values()):
            assert time.monotonic() < end_s, "the second terminal sees no tables"
            terminal.read(0.01)
            for message in second.poll():
                if isinstance(message, BatchMessage):
                    view.apply(message.batch)
        second.close()
        while asking.is_alive():
            terminal.read(0.05)
        answer = answers[0].json()
        assert answer["usage"]["completion_tokens"] == 200
        (sequence,) = {sequence.request_id for sequence in view.sequences.values()}
        assert sequence == answer["id"], "a call and its request go by one name"
        terminal.press("q")
        assert terminal.wait() == 0
    finally:
        terminal.close()
