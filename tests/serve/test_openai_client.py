"""The official client against the served engine: what people's programs do works, and every answer is the right one."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import openai
import pytest

from kvtop.engine.requests import Request
from tests.engine.fake_runner import oracle
from tests.serve.served import SIMULATED, Served

MAX_MODEL_LEN = 400


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served(num_blocks=60, block_size=4, max_model_len=MAX_MODEL_LEN) as served:
        yield served


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0, timeout=20) as client:
        yield client


def right(prompt: list[int], index: int = 0, **fields: object) -> str:
    """What the engine must answer, computed without it."""
    request = Request(id="right", prompt_token_ids=prompt, **fields)  # type: ignore[arg-type]
    return "".join(f"{token} " for token in oracle(request, prompt, MAX_MODEL_LEN, index))


def test_a_completion_is_the_engine_s_answer_with_its_counts(client: openai.OpenAI, served: Served) -> None:
    assert [model.id for model in client.models.list()] == [served.model] == ["fake"]
    answer = client.completions.create(model="fake", prompt="1 2 3", max_tokens=9, temperature=0)
    assert answer.choices[0].text == right([1, 2, 3], max_tokens=9)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (3, 9, 12)
    again = client.completions.create(model="fake", prompt=[1, 2, 3] * 5, max_tokens=2, temperature=0)
    assert again.choices[0].text == right([1, 2, 3] * 5, max_tokens=2)
    shared = client.completions.create(model="fake", prompt=[1, 2, 3] * 5, max_tokens=2, temperature=0).usage
    assert shared is not None and shared.prompt_tokens_details is not None
    assert shared.prompt_tokens_details.cached_tokens == 12, "three full blocks of the same prompt"


def test_a_client_names_its_call_and_counts_its_tokens(client: openai.OpenAI, served: Served) -> None:
    named = {"X-Request-Id": "mine-7"}
    asked = {"model": "fake", "prompt": "1 2 3", "temperature": 0}
    assert client.completions.create(**asked, max_tokens=2, extra_headers=named).id == "cmpl-mine-7"  # type: ignore[call-overload]
    stream = client.completions.create(**asked, max_tokens=100, extra_headers=named, stream=True)  # type: ignore[call-overload]
    next(iter(stream))
    with pytest.raises(openai.BadRequestError, match="'cmpl-mine-7' is open already"):
        client.completions.create(**asked, max_tokens=2, extra_headers=named)  # type: ignore[call-overload]
    assert len(list(stream)) >= 98, "the open call goes on"
    counted = served.http.post("/tokenize", json={"prompt": "1 2 3 4"}).json()
    assert counted == {"count": 4, "max_model_len": MAX_MODEL_LEN}
    refused = served.http.post("/tokenize", json={"messages": [{"role": "user", "content": "hi"}]})
    assert refused.json()["error"]["message"].startswith("messages: numbers have no chat template")
    assert served.http.post("/tokenize", json={}).json()["error"]["param"] == "prompt"


def test_a_stream_adds_up_to_the_whole_answer_and_ends_with_the_counts(client: openai.OpenAI) -> None:
    stream = client.completions.create(
        model="fake", prompt="5 6", max_tokens=12, temperature=0, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == right([5, 6], max_tokens=12)
    assert len(chunks) >= 12
    assert [choice.finish_reason for choice in chunks[-2].choices] == ["length"]
    assert chunks[-1].usage is not None and chunks[-1].usage.completion_tokens == 12


def test_every_sample_of_every_prompt_is_a_choice_of_its_own(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model="fake", prompt=["1 2 3 4 5", "9 8 7"], n=3, seed=11, temperature=0.7, max_tokens=8
    )
    expected = [
        right(prompt, index, seed=11, temperature=0.7, max_tokens=8)
        for prompt in ([1, 2, 3, 4, 5], [9, 8, 7])
        for index in range(3)
    ]
    assert [(choice.index, choice.text) for choice in answer.choices] == list(enumerate(expected))
    stream = client.completions.create(
        model="fake", prompt=[[1, 2, 3, 4, 5], [9, 8, 7]], n=3, seed=11, temperature=0.7, max_tokens=8, stream=True
    )
    texts = [""] * 6
    for chunk in stream:
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts == expected


def test_an_answer_ends_at_a_stop_string_or_token_and_says_which(client: openai.OpenAI) -> None:
    whole = right([4, 4], max_tokens=20).split()
    answer = client.completions.create(
        model="fake", prompt="4 4", max_tokens=20, temperature=0, stop=[f"{whole[5]} ", "zzz"]
    )
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].model_extra == {"stop_reason": f"{whole[5]} "}
    assert whole[5] in answer.choices[0].text.split()[-1:], "the fake codec does not cut the stop string off"
    by_token = client.completions.create(
        model="fake", prompt="4 4", max_tokens=20, temperature=0, extra_body={"stop_token_ids": [int(whole[3])]}
    )
    assert by_token.choices[0].finish_reason == "stop"
    assert by_token.choices[0].text.split() == whole[: whole.index(whole[3]) + 1]


def test_log_probabilities_name_every_token_as_it_reads(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="fake", prompt="1 2", max_tokens=4, temperature=0, logprobs=0)
    told = answer.choices[0].logprobs
    assert told is not None
    assert "".join(told.tokens or []) == answer.choices[0].text == right([1, 2], max_tokens=4)
    assert told.token_logprobs == [-1.0] * 4
    offsets = [len("".join((told.tokens or [])[:place])) for place in range(4)]
    assert told.text_offset == offsets


def test_a_chat_is_answered_whole_and_in_pieces() -> None:
    with (
        Served(SIMULATED, num_blocks=64) as served,
        openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0, timeout=20) as client,
    ):
        turns = [
            {"role": "developer", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "what is a block table"}]},
        ]
        asked = {"model": served.model, "messages": turns, "extra_body": {"ignore_eos": True}}
        answer = client.chat.completions.create(max_tokens=6, logprobs=True, top_logprobs=0, n=2, **asked)  # type: ignore[call-overload]
        assert [len(choice.message.content.split()) for choice in answer.choices] == [6, 6]
        assert {choice.message.role for choice in answer.choices} == {"assistant"}
        assert answer.usage.prompt_tokens == 1 + 2 + 1 + 5 + 1
        for choice in answer.choices:
            assert "".join(token.token for token in choice.logprobs.content) == choice.message.content
            assert bytes(choice.logprobs.content[0].bytes).decode() == choice.logprobs.content[0].token
        stream = client.chat.completions.create(max_completion_tokens=6, stream=True, **asked)  # type: ignore[call-overload]
        chunks = [chunk.choices[0] for chunk in stream]
        assert chunks[0].delta.role == "assistant"
        assert len("".join(chunk.delta.content or "" for chunk in chunks).split()) == 6
        assert chunks[-1].finish_reason == "length"


def test_a_client_that_leaves_gives_its_blocks_back_at_once(client: openai.OpenAI, served: Served) -> None:
    stream = client.completions.create(
        model="fake", prompt="7 7 7 7 7", max_tokens=200, n=2, temperature=1, seed=1, stream=True
    )
    next(iter(stream))
    assert served.metric("vllm:kv_cache_usage_perc") > 0
    aborted = served.metric("vllm:request_success_total", finished_reason="abort")
    stream.close()
    served.until(lambda: served.metric("vllm:kv_cache_usage_perc") == 0, "its blocks never came back")
    assert served.metric("vllm:request_success_total", finished_reason="abort") == aborted + 2
    with pytest.raises(openai.APITimeoutError):  # one that waits for a whole answer, too
        client.with_options(timeout=0.1).completions.create(model="fake", prompt="7 7", max_tokens=390, temperature=0)
    served.until(
        lambda: served.metric("vllm:request_success_total", finished_reason="abort") == aborted + 3, "it went on"
    )
    assert served.metric("vllm:num_requests_running") == 0


def test_many_clients_at_once_under_preemption_all_get_the_right_answers(client: openai.OpenAI, served: Served) -> None:
    preempted = served.metric("vllm:num_preemptions_total")
    wrong: list[str] = []

    def ask(number: int) -> None:
        for turn in range(3):
            prompt = [number, turn, 1, 2, 3]
            text = " ".join(map(str, prompt))
            answer = client.completions.create(model="fake", prompt=text, max_tokens=60, temperature=0)
            if answer.choices[0].text != right(prompt, max_tokens=60):
                wrong.append(f"client {number}, call {turn}: {answer.choices[0].text!r}")

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == []
    assert served.metric("vllm:num_preemptions_total") > preempted, "the pool was meant to be too small"
    served.until(lambda: served.metric("vllm:kv_cache_usage_perc") == 0, "blocks are held though all have ended")
