"""Requests over a real socket to a fake OpenAI endpoint: what is sent, what is heard, what is refused and why."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from kvtop.engine.control import Abort, ClearCache, Inject, Measure, Pause, Reply
from kvtop.engine.requests import Request
from kvtop.sources.openai_client import OpenAIClient, Said, StreamEnded, Word
from tests.sources.fake_openai import FakeOpenAI, fake_openai


class Asking:
    """A client, its fake server, and what the client has heard."""

    def __init__(self, fake: FakeOpenAI, client: OpenAIClient) -> None:
        self.fake = fake
        self.client = client
        self.words: list[Word] = []

    def wait(self, holds: Callable[[], bool], timeout_s: float = 5.0) -> None:
        end = time.monotonic() + timeout_s
        while not holds():
            assert time.monotonic() < end, f"it never came about; heard {self.words}"
            self.words += self.client.poll()
            time.sleep(0.005)

    def reply(self) -> Reply:
        self.wait(lambda: any(isinstance(word, Reply) for word in self.words))
        (reply,) = [word for word in self.words if isinstance(word, Reply)]
        self.words.remove(reply)
        return reply

    def text(self, request_id: str, index: int = 0) -> str:
        said = [word for word in self.words if isinstance(word, Said)]
        return "".join(word.text for word in said if (word.request_id, word.index) == (request_id, index))

    def ended(self, request_id: str) -> bool:
        return any(isinstance(word, StreamEnded) and word.request_id == request_id for word in self.words)


@pytest.fixture
def asking() -> Iterator[Asking]:
    with fake_openai() as fake:
        client = OpenAIClient(fake.url, headers={"Authorization": "Bearer key"}, extra={"return_token_ids": True})
        client.start()
        yield Asking(fake, client)
        client.close()


def test_an_answer_is_heard_token_by_token_and_the_inject_is_answered_before_the_first(asking: Asking) -> None:
    asking.client.send(Inject(ticket=4, requests=[Request(id="a", prompt="What?", chat=True, max_tokens=4)]))
    assert asking.reply() == Reply(ticket=4)
    assert asking.text("a") == ""
    asking.fake.let_out(2)
    asking.wait(lambda: asking.text("a") == "Paging")
    asking.fake.let_out(2)
    asking.wait(lambda: asking.ended("a"))
    assert asking.text("a") == "Paging is fine" and asking.words[-1] == StreamEnded("a")


def test_a_request_goes_out_with_its_id_its_key_and_the_fields_that_were_asked_for(asking: Asking) -> None:
    asking.fake.run_on()
    chat = Request(id="a", prompt="What?", chat=True, max_tokens=4, seed=9, temperature=0.5)
    plain = Request(id="b", prompt_token_ids=[3, 4], n=2, ignore_eos=True, priority=-1, salt="s", stop=["x"])
    asking.client.send(Inject(requests=[chat, plain]))
    asking.wait(lambda: asking.ended("a") and asking.ended("b"))
    bodies = dict(asking.fake.asked)
    common = {"model": "some-model", "stream": True, "return_token_ids": True}
    assert bodies["/v1/chat/completions"] == common | {
        "messages": [{"role": "user", "content": "What?"}], "max_tokens": 4, "seed": 9, "temperature": 0.5, "n": 1,
    }  # fmt: skip
    assert bodies["/v1/completions"] == common | {
        "prompt": [3, 4], "max_tokens": 16, "n": 2, "temperature": 0.0,
        "ignore_eos": True, "priority": -1, "cache_salt": "s", "stop": ["x"],
    }  # fmt: skip
    assert sorted(filter(None, asking.fake.ids)) == ["a", "b"] and set(asking.fake.keys) == {"Bearer key"}
    assert asking.text("b", 0) == asking.text("b", 1) == "Paging is fine"


def test_a_request_with_a_later_arrival_is_sent_then_and_not_before(asking: Asking) -> None:
    asking.fake.run_on()
    asking.client.send(Inject(requests=[Request(id="now", prompt="x"), Request(id="then", prompt="x", arrival_s=0.4)]))
    assert asking.reply().error == ""
    asking.wait(lambda: asking.ended("now"))
    assert asking.fake.ids == ["now"]
    asking.wait(lambda: asking.ended("then"))


def test_abort_closes_the_stream_and_the_server_sees_it(asking: Asking) -> None:
    asking.client.send(Inject(requests=[Request(id="a", prompt="x")]))
    asking.reply()
    asking.fake.let_out(1)
    asking.wait(lambda: asking.text("a") == "Pa")
    asking.client.send(Abort(ticket=2, request_id="a"))
    assert asking.reply() == Reply(ticket=2)
    asking.wait(lambda: asking.ended("a") and asking.fake.gone == ["a"])
    asking.client.send(Abort(request_id="cmpl-of-somebody"))
    assert "was not sent from here" in asking.reply().error


def test_an_abort_on_the_heels_of_its_request_ends_it_all_the_same(asking: Asking) -> None:
    asking.client.send(Inject(requests=[Request(id="a", prompt="x", arrival_s=30)]))
    asking.reply()
    asking.client.send(Abort(request_id="a"))
    assert asking.reply().error == ""
    asking.wait(lambda: asking.ended("a"))
    assert asking.fake.asked == []


def test_what_the_server_refuses_is_the_injects_error_in_the_servers_words(asking: Asking) -> None:
    asking.fake.refuses = "max_tokens is too large:\x1b[31m 9"
    asking.client.send(Inject(ticket=1, requests=[Request(id=name, prompt="x") for name in "ab"]))
    error = asking.reply().error
    assert error == "2 of 2 refused: a: HTTP 400: max_tokens is too large:␛[31m 9"
    asking.wait(lambda: asking.ended("a") and asking.ended("b"))


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request(id="a", prompt="x", beam_width=3), "beam search does not stream"),
        (Request(id="a", prompt="x", arrival_step=3), "arrival_step counts steps of kvtop's own engine"),
    ],
)
def test_what_cannot_be_sent_is_refused_whole_and_nothing_goes_out(
    asking: Asking, request_: Request, words: str
) -> None:
    asking.client.send(Inject(requests=[Request(id="fine", prompt="x"), request_]))
    assert words in asking.reply().error
    assert asking.fake.asked == []


def test_two_requests_of_one_id_never_run_at_once(asking: Asking) -> None:
    asking.client.send(Inject(requests=[Request(id="a", prompt="x")]))
    asking.reply()
    asking.client.send(Inject(requests=[Request(id="a", prompt="y")]))
    assert "a request of that id is under way" in asking.reply().error


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b'data: {"error": {"message": "out of memory"}}\n\n', "a: out of memory"),
        (b'data: {"choices": [{"index": 0, "text": "x"}]}\n\n', "a: its answer broke off"),
        (b"data: {]\n\n", "its answer cannot be read"),
        (b'data: {"choices": 5}\n\n', "its answer cannot be read"),
        (b"data: [1]\n\n", "its answer cannot be read"),
        (b"x" * (3 << 20), "a line of its answer is longer than 1 MiB"),
    ],
)
def test_an_answer_that_breaks_ends_its_request_alone_with_the_reason(asking: Asking, raw: bytes, words: str) -> None:
    asking.fake.raw = raw
    asking.client.send(Inject(requests=[Request(id="a", prompt="x")]))
    asking.wait(lambda: asking.ended("a"))
    (ended,) = [word for word in asking.words if isinstance(word, StreamEnded)]
    assert words in ended.error
    asking.words.clear()
    asking.fake.raw = None
    asking.fake.run_on()
    asking.client.send(Inject(requests=[Request(id="a", prompt="x")]))
    asking.wait(lambda: asking.ended("a"))
    assert asking.text("a") == "Paging is fine"


def test_tokens_of_a_prompt_are_counted_by_the_server(asking: Asking) -> None:
    asking.client.send(Measure(ticket=3, request=Request(id="measure", prompt="What?", chat=True)))
    assert asking.reply() == Reply(ticket=3, value=7)
    asking.client.send(Measure(request=Request(id="measure", prompt="What?")))
    assert asking.reply().value == 7
    assert [body for _, body in asking.fake.asked] == [
        {"model": "some-model", "messages": [{"role": "user", "content": "What?"}]},
        {"model": "some-model", "prompt": "What?"},
    ]


def test_the_prefix_cache_is_cleared_where_that_is_offered(asking: Asking) -> None:
    asking.client.send(ClearCache(ticket=1))
    assert asking.reply() == Reply(ticket=1)
    asking.fake.offers_reset = False
    asking.client.send(ClearCache())
    assert "VLLM_SERVER_DEV_MODE=1" in asking.reply().error


def test_a_command_that_no_http_endpoint_has_is_refused_by_name(asking: Asking) -> None:
    asking.client.send(Pause(ticket=8))
    assert asking.reply() == Reply(ticket=8, error="pause: a server takes no such command over its HTTP endpoint")


def test_a_server_that_is_not_there_is_said_so() -> None:
    with fake_openai() as fake:
        url = fake.url
    client = OpenAIClient(url, model="m")
    client.start()
    asking = Asking(fake, client)
    try:
        client.send(Inject(requests=[Request(id="a", prompt="x")]))
        assert asking.reply().error == "a: connection refused"
        client.send(ClearCache())
        assert asking.reply().error == f"{url}: connection refused"
    finally:
        client.close()


def test_closing_is_quick_closes_every_stream_and_may_come_before_the_start(asking: Asking) -> None:
    asking.client.send(Inject(requests=[Request(id="a", prompt="x")]))
    asking.reply()
    began = time.monotonic()
    asking.client.close()
    asking.client.close()
    assert time.monotonic() - began < 0.6
    end = time.monotonic() + 5
    while asking.fake.gone != ["a"]:
        assert time.monotonic() < end
        time.sleep(0.01)
    OpenAIClient(asking.fake.url).close()
