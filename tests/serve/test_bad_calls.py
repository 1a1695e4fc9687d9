"""What is wrong with a call is said by field, with what is allowed; what is too much is refused; nothing is a 500."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from kvtop.engine.control import Pause, Resume
from tests.serve.served import DYING_ENGINE, SIMULATED, Served

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
TURN = {"role": "user", "content": "hi"}


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served(num_blocks=20, block_size=4, max_model_len=400) as served:
        yield served


def post(served: Served, path: str, body: object) -> httpx2.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = served.http.post(path, content=content)
    assert answer.headers["content-type"] == "application/json"
    return answer


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({"max_tokns": 3}, "max_tokns", "max_tokns: is not known here; did you mean max_tokens?"),
        ({"max_tokens": 0}, "max_tokens", "max_tokens: is 0, expected at least 1"),
        ({"max_tokens": "3"}, "max_tokens", 'max_tokens: is "3", expected a whole number or null'),
        ({"max_tokens": 401}, "max_tokens", "max_tokens: is 401, expected at most the model's length of 400 tokens"),
        ({"temperature": 2.5}, "temperature", "temperature: is 2.5, expected at most 2.0"),
        ({"top_p": 0}, "top_p", "top_p: is 0, expected above 0.0"),
        ({"n": 129}, "n", "n: is 129, expected at most 128"),
        ({"seed": 2**63}, "seed", "seed: "),
        ({"stop": ["a", ""]}, "stop[1]", 'stop[1]: is "", expected at least 1 characters'),
        ({"prompt": ""}, "prompt", 'prompt: is "", expected at least 1 characters'),
        ({"prompt": []}, "prompt", "prompt: expected at least 1 elements"),
        ({"prompt": [1, "a"]}, "prompt", "prompt: mixes token ids with other things"),
        ({"prompt": [5000]}, "prompt_token_ids", "prompt_token_ids: 5000 is outside the vocabulary of 1000 tokens"),
        ({"prompt": "7 " * 100}, "prompt", "prompt: its 100 prompt tokens need 25 blocks of 4 tokens, the pool has 20"),
        ({"prompt": "7 " * 401}, "prompt", "prompt: the prompt has 401 tokens, max_model_len is 400"),
        ({"prompt": "a\ud800"}, None, "the body is not JSON"),
        ({"presence_penalty": 0.5}, "presence_penalty", "presence_penalty: this engine has no presence penalty"),
        ({"echo": True}, "echo", "echo: only the answer is returned here; leave it out"),
        ({"stream_options": {}}, "stream_options", "stream_options: goes with stream, which is not true here"),
        ({"stream_options": {"x": 1}, "stream": True}, "stream_options.x", "stream_options.x: is not known here"),
    ],
)
def test_a_bad_field_is_named_with_what_is_allowed(
    served: Served, fields: dict[str, Any], param: str | None, message: str
) -> None:
    answer = post(served, COMPLETIONS, {"model": "fake", "prompt": "1 2", **fields})
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param), error
    assert error["message"].startswith(message), error["message"]


@pytest.mark.parametrize(("body", "missing"), [({"prompt": "1 2"}, "model"), ({"model": "fake"}, "prompt")])
def test_a_field_that_is_missing_is_named(served: Served, body: dict[str, str], missing: str) -> None:
    error = post(served, COMPLETIONS, body).json()["error"]
    assert (error["param"], error["message"]) == (missing, f"{missing}: is missing, every call needs it")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"messages": []}, "messages: expected at least 1 elements"),
        ({"messages": [{"role": "robot", "content": "x"}]}, 'messages[0].role: is "robot", expected system, developer'),
        ({"messages": [{"role": "user"}]}, "messages[0].content: is missing, it is needed there"),
        ({"top_logprobs": 2}, "top_logprobs: is 2 without logprobs; set logprobs to true"),
        ({"tools": [{"type": "function"}]}, "tools: this engine calls no tools; leave it out"),
        ({"response_format": {"type": "json_object"}}, "response_format: this engine writes plain text"),
        ({"max_tokens": 3, "max_completion_tokens": 4}, "max_completion_tokens: differs from max_tokens"),
        ({}, "messages: numbers have no chat template"),
    ],
)
def test_a_bad_conversation_is_refused_likewise(served: Served, fields: dict[str, Any], message: str) -> None:
    answer = post(served, CHAT, {"model": "fake", "messages": [TURN], **fields})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(message), answer.json()


NO_OBJECTS = {
    "nothing": b"",
    "cut": b"{",
    "a list": b"[]",
    "no text": b"\xff\xfe",
    "a number": b"3",
    "deep lists": b"[" * 100_000,
    "deep in a field": b'{"model":"fake","prompt":"1","logit_bias":' + b"[" * 100_000,
    "not a number": b'{"model":"fake","prompt":NaN}',
    "cut after a fault": b'{"model":"fake","prompt":3,',
}


@pytest.mark.parametrize("body", NO_OBJECTS.values(), ids=NO_OBJECTS.keys())
def test_what_is_no_json_object_is_refused(served: Served, body: bytes) -> None:
    answer = post(served, COMPLETIONS, body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")


def test_another_model_an_unknown_address_and_a_wrong_method_are_told_apart(served: Served) -> None:
    answer = post(served, COMPLETIONS, {"model": "gpt-9", "prompt": "1"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
    assert answer.json()["error"]["message"] == "model: there is no 'gpt-9' here, 'fake' is served"
    assert served.http.get("/v1/nothing").status_code == 404
    assert served.http.get(COMPLETIONS).status_code == 405


def test_a_call_needs_the_key_where_one_was_set_and_watchers_do_not() -> None:
    with Served(SIMULATED, front={"api_key": "secret", "model": "mine"}, num_blocks=16) as served:
        for key in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}):
            answer = httpx2.get(f"{served.url}/v1/models", headers=key, trust_env=False)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert "secret" not in answer.text
        assert served.model == "mine"
        assert httpx2.get(f"{served.url}/metrics", trust_env=False).status_code == 200


def test_a_body_too_large_is_refused_whether_it_says_so_or_not() -> None:
    from kvtop.serve.limits import Limits

    with Served(SIMULATED, front={"limits": Limits(body_bytes=1000)}, num_blocks=16) as served:
        body = json.dumps({"model": served.model, "prompt": "page " * 300}).encode()
        assert post(served, COMPLETIONS, body).status_code == 413
        pieces = (body[at : at + 100] for at in range(0, len(body), 100))
        answer = served.http.post(COMPLETIONS, content=pieces)  # sent in chunks, its length untold
        assert (answer.status_code, answer.json()["error"]["message"][:13]) == (413, "the body has ")


def test_calls_beyond_the_limits_are_sent_away_and_those_within_are_answered() -> None:
    from kvtop.serve.limits import Limits

    limits = Limits(open_calls=6, waiting=3)
    with Served(front={"limits": limits}, num_blocks=40, block_size=4, max_model_len=150, max_num_seqs=2) as served:
        statuses: list[int] = []

        def ask(number: int) -> None:
            body = {"model": "fake", "prompt": f"{number} 2", "max_tokens": 60, "temperature": 0}
            statuses.append(post(served, COMPLETIONS, body).status_code)

        served.send(Pause())  # none is done before the last has come
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        served.until(lambda: len(statuses) >= 10, "those beyond the limits were not sent away")
        served.send(Resume())
        for thread in threads:
            thread.join(20)
        assert (len(statuses), set(statuses)) == (16, {200, 429})
        assert 3 <= statuses.count(200) <= 6
        refused = [answer for answer in (served.http.get("/health"),) if answer.status_code != 200]
        assert refused == []


def test_an_engine_that_dies_ends_open_calls_and_refuses_new_ones_with_the_reason() -> None:
    with Served(DYING_ENGINE, num_blocks=40, block_size=4) as served:
        body = {"model": "fake", "prompt": "1 2 3", "max_tokens": 300, "temperature": 0}
        with served.http.stream("POST", COMPLETIONS, content=json.dumps({**body, "stream": True})) as stream:
            events = [line for line in stream.iter_lines() if line.startswith("data: ")]
        assert events[-1] == "data: [DONE]"
        error = json.loads(events[-2].removeprefix("data: "))["error"]
        assert error["message"] == "the engine has failed: the engine process was killed by SIGKILL"
        answer = post(served, COMPLETIONS, body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "engine_gone")
        assert "killed by SIGKILL" in answer.json()["error"]["message"]
        assert served.http.get("/health").status_code == 503
        assert served.http.get("/metrics").status_code == 200


def test_an_engine_that_was_ended_without_a_reason_is_told_of_in_a_whole_sentence() -> None:
    with Served(num_blocks=40, block_size=4) as served:
        body = {"model": "fake", "prompt": "1 2 3", "max_tokens": 300, "temperature": 0}
        with served.http.stream("POST", COMPLETIONS, content=json.dumps({**body, "stream": True})) as stream:
            lines = (line for line in stream.iter_lines() if line.startswith("data: "))
            next(lines)
            served.source.close()
            events = list(lines)
        assert json.loads(events[-2].removeprefix("data: "))["error"]["message"] == "the engine has stopped"
        assert post(served, COMPLETIONS, body).json()["error"]["message"] == "the engine has stopped"


def test_a_new_engine_in_the_old_one_s_place_is_served() -> None:
    with Served(DYING_ENGINE, num_blocks=40, block_size=4) as served:
        body = {"model": "fake", "prompt": "1 2 3", "max_tokens": 300, "temperature": 0}
        assert post(served, COMPLETIONS, body).status_code == 503
        served.source.restart()
        served.until(lambda: served.http.get("/health").status_code == 200, "the new engine is not seen")
        assert post(served, COMPLETIONS, {**body, "max_tokens": 5}).status_code == 200
