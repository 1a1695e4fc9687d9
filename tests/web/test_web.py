"""``kvtop web`` without a browser: what the page is made of, what goes over its websocket, what is left at the end."""

from __future__ import annotations

import json
import re
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import aiohttp
import pytest

from kvtop import cli
from kvtop.web.server import OURS
from tests.web.server import Served, gone

FOREIGN = re.compile(r"""(?:src|href|url|import|fetch)\s*[=(]?\s*["'(]?\s*(?:https?:)?//""")


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served("live", "--sim", "--num-blocks", "64") as server:
        yield server


def get(address: str) -> tuple[str, str]:
    """Body and Content-Security-Policy."""
    with urllib.request.urlopen(address, timeout=30) as answer:
        return answer.read().decode("utf-8", "replace"), answer.headers.get("Content-Security-Policy", "")


def test_the_page_and_all_it_asks_for_come_from_its_own_server(served: Served) -> None:
    page, policy = get(served.address)
    assert "default-src 'none'" in policy and "http:" not in policy
    links = re.findall(r"(?:src|href)=\"([^\"]+)\"", page)
    assert "page.js" in links and "static/js/textual.js" in links and any("fonts/" in link for link in links)
    for link in links:
        if not link.startswith("data:"):
            assert urljoin(served.address, link).startswith(served.address)
            body, _ = get(urljoin(served.address, link))
            assert body and not FOREIGN.search(body), link
    for path in OURS:
        assert "//" not in re.sub(r"^\s*//.*$", "", get(served.address + path)[0], flags=re.MULTILINE).replace(
            "https:", ""
        )


def test_without_the_word_in_the_address_there_is_nothing(served: Served) -> None:
    base = served.address.rsplit("/", 2)[0]
    for path in ("/", "/ws", "/static/js/textual.js", "/page.js", "/guess/", "/guess/ws"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            get(base + path)
        assert refused.value.code == 404
    assert base.startswith("http://127.0.0.1:")


async def read_until(websocket: aiohttp.ClientWebSocketResponse, words: str) -> str:
    """What was drawn, up to ``words``."""
    drawn = ""
    until = time.monotonic() + 60
    while words not in drawn:
        message = await websocket.receive(timeout=60)
        assert time.monotonic() < until, f"{words!r} did not appear in {drawn[-500:]!r}"
        assert message.type == aiohttp.WSMsgType.BINARY, f"{message} came before {words!r}; {drawn[-500:]!r}"
        drawn += message.data.decode("utf-8", "replace")
    return drawn


async def send(websocket: aiohttp.ClientWebSocketResponse, *message: object) -> None:
    await websocket.send_str(json.dumps(message))


async def test_a_page_has_a_dashboard_a_second_one_waits_for_it_and_q_ends_it(served: Served) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.ws_connect(f"{served.address}ws?width=100&height=30") as first:
            await read_until(first, "traffic yet")
            processes = served.family()
            assert len(processes) == 2  # the dashboard and its engine
            async with session.ws_connect(f"{served.address}ws?width=100&height=30") as second:
                await read_until(second, "is open in another page")
                await send(first, "stdin", "?")
                await read_until(first, "The pool. One cell is one block")
                await send(first, "stdin", "qq")  # out of the help, and out of it all
                while (message := await first.receive(timeout=60)).type == aiohttp.WSMsgType.BINARY:
                    pass
                assert message.type == aiohttp.WSMsgType.CLOSE
                assert gone(processes)
                await read_until(second, "traffic yet")
        assert gone(served.family())


async def test_a_pasted_escape_in_a_page_stays_text(served: Served) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{served.address}ws?width=100&height=40") as page,
    ):
        await read_until(page, "traffic yet")
        await send(page, "stdin", "i")
        await read_until(page, "inject requests")
        await send(page, "stdin", "\x1b[200~page\x1b[2Jq\x1b[201~")
        assert "␛[2Jq" in await read_until(page, "␛[2Jq")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_it_with_every_page_and_process(number: signal.Signals) -> None:
    with Served("--", "--sim", "--num-blocks", "64") as served:
        async with aiohttp.ClientSession() as session, session.ws_connect(f"{served.address}ws") as page:
            await read_until(page, "traffic yet")
            processes = served.family()
            assert served.end(number) == 128 + number
            assert gone(processes)


async def test_when_the_server_is_killed_its_dashboards_end_too() -> None:
    with Served("live", "--sim", "--num-blocks", "64") as served:
        async with aiohttp.ClientSession() as session, session.ws_connect(f"{served.address}ws") as page:
            await read_until(page, "traffic yet")
            processes = served.family()
            assert served.end(signal.SIGKILL) == -signal.SIGKILL
            assert gone(processes)


async def test_why_a_dashboard_cannot_start_stands_in_the_page_and_no_shell_reads_its_flags(tmp_path: Path) -> None:
    name = "$(touch made); touch made"
    with Served("replay", name, cwd=str(tmp_path)) as served:
        async with aiohttp.ClientSession() as session, session.ws_connect(f"{served.address}ws") as page:
            await read_until(page, f"{name}: cannot be read")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "x.json"], "'run' has no dashboard; expected one of live, learn, replay, attach, sim"),
        (["live", "--nope"], "kvtop live: there is no flag --nope\n"),
        (["live", "--sim", "--once"], "with --once it prints: no browser is needed"),
        (["--port", "x"], "--port: is 'x', expected"),
    ],
)
def test_what_is_wrong_in_the_command_line_is_said_before_anything_is_served(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["web", *arguments])
    assert ended.value.code == 2 and words in capsys.readouterr().err


def test_a_port_that_is_taken_is_told_with_a_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert cli.main(["web", "--port", str(port), "live", "--sim"]) == 1
    said = capsys.readouterr().err
    assert f"127.0.0.1:{port} cannot be listened on" in said and "--port 0" in said


def test_without_the_extra_it_says_in_one_line_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert cli.main(["web", "live", "--sim"]) == 1
    assert capsys.readouterr().err == (
        "kvtop: kvtop web needs textual_serve, aiohttp, which is not installed: pip install 'kvtop-live[web]'\n"
    )


def test_an_address_that_others_reach_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        assert cli.main(["web", "--host", "0.0.0.0", "--port", str(taken.getsockname()[1])]) == 1
    assert "0.0.0.0 can be reached from other machines" in capsys.readouterr().err
