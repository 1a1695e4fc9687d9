"""Requests sent from here to a watched server: the form, what became of each, refusals, aborts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from kvtop.attach.traffic import ServerTraffic
from kvtop.engine.control import Abort, Inject, Measure, Reply
from kvtop.engine.requests import Request
from kvtop.sources.exported import ExportedSource
from kvtop.sources.watched import WatchedSource
from tests.attach.fake_server import fake_http
from tests.attach.recorded import pages
from tests.attach.screens import shown, until, until_shown, watching
from tests.sources.fake_openai import FakeOpenAI, fake_openai


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with fake_openai() as fake:
        yield fake


@pytest.fixture
def traffic(server: FakeOpenAI) -> Iterator[ServerTraffic]:
    traffic = ServerTraffic(server.url)
    yield traffic
    traffic.close()


def poll_until(traffic: ServerTraffic, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 8
    while not holds():
        assert time.monotonic() < end, traffic.sent
        traffic.poll()
        time.sleep(0.005)


def test_an_answer_is_followed_as_it_streams(server: FakeOpenAI, traffic: ServerTraffic) -> None:
    traffic.send(Inject(requests=[Request(id="req-1", prompt="What is paging?", max_tokens=4)]))
    assert traffic.sent["req-1"].state == "waits" and traffic.next_number == 2
    server.let_out(2)
    poll_until(traffic, lambda: traffic.sent["req-1"].tokens == 2)
    sent = traffic.sent["req-1"]
    assert (sent.state, sent.text, sent.asked) == ("streams", "Paging", "What is paging?") and sent.first_s is not None
    server.run_on()
    poll_until(traffic, lambda: traffic.sent["req-1"].state == "done")
    assert traffic.sent["req-1"].text == "Paging is fine" and not traffic.under_way


def test_a_refusal_is_told_with_the_servers_words(server: FakeOpenAI, traffic: ServerTraffic) -> None:
    server.refuses = "too long by far"
    replies: list[Reply] = []
    traffic.send(Inject(requests=[Request(id="req-1", prompt="x")]), replies.append)
    poll_until(traffic, lambda: bool(replies))
    assert "too long by far" in replies[0].error
    assert traffic.sent["req-1"].state == "failed" and "too long by far" in traffic.sent["req-1"].error


def test_all_that_is_under_way_can_be_aborted(server: FakeOpenAI, traffic: ServerTraffic) -> None:
    traffic.send(Inject(requests=[Request(id=f"req-{n}", prompt="x", max_tokens=4) for n in (1, 2)]))
    server.let_out(2)
    poll_until(traffic, lambda: sum(sent.tokens for sent in traffic.sent.values()) == 2)
    assert traffic.abort_all() == 2
    poll_until(traffic, lambda: not traffic.under_way)
    assert [sent.state for sent in traffic.sent.values()] == ["aborted", "aborted"]


def test_the_tables_source_measures_and_aborts_over_http_what_the_server_calls_otherwise(
    server: FakeOpenAI, traffic: ServerTraffic
) -> None:
    source = WatchedSource(ExportedSource("tcp://127.0.0.1:9"), traffic)
    source.send(Measure(ticket=5, request=Request(id="measure", prompt="x")))
    source.send(Inject(ticket=6, requests=[Request(id="req-1", prompt="x", max_tokens=4)]))
    server.let_out(1)
    poll_until(traffic, lambda: traffic.sent["req-1"].tokens == 1)
    source.send(Abort(ticket=7, request_id="cmpl-req-1-0-9fd25089"))
    replies: list[Reply] = []

    def all_answered() -> bool:
        replies.extend(message for message in source.poll() if isinstance(message, Reply))
        return len(replies) == 3

    poll_until(traffic, all_answered)
    assert [(reply.ticket, reply.error) for reply in sorted(replies, key=lambda it: it.ticket)] == [
        (5, ""),
        (6, ""),
        (7, ""),
    ]
    assert next(reply.value for reply in replies if reply.ticket == 5) == 7
    poll_until(traffic, lambda: traffic.sent["req-1"].state == "aborted" and not traffic.under_way)


async def test_the_form_sends_to_the_server_and_the_answers_are_listed(server: FakeOpenAI) -> None:
    page = pages("tight")[133].body
    with fake_http(page) as metrics:
        async with watching(metrics.url) as (app, pilot):
            await until_shown(app, "run 7")
            app.scene.traffics[0] = ServerTraffic(server.url)
            await pilot.press("i")
            await until_shown(app, "inject requests", "needs 2 blocks now", "about 5 of")
            server.run_on()
            await pilot.press("enter")
            await until_shown(app, "sent from here", "req-1", "done", "Paging is fine")
            assert server.asked[0][1]["max_tokens"] == 64
            server.refuses = "no room"
            await pilot.press("i", "enter")
            await until_shown(app, "failed", "no room")
            await pilot.press("A")
            await until(app, lambda: "aborted 0 requests" in shown(app))
