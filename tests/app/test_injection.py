"""From the form to requests: what is asked for, what it needs, what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvtop.app.injection import FIELDS, FormError, need_of, requests_from
from kvtop.engine.requests import Request

DEFAULTS = {field.name: field.default for field in FIELDS}


def test_a_length_makes_prompts_of_that_length_each_its_own() -> None:
    requests = requests_from(DEFAULTS | {"length": "40", "count": "3"}, 7)
    assert [request.id for request in requests] == ["req-7", "req-8", "req-9"]
    prompts = [tuple(request.prompt_token_ids or ()) for request in requests]
    assert {len(prompt) for prompt in prompts} == {40} and len(set(prompts)) == 3
    assert all(request.check() is None for request in requests)


def test_a_prompt_wins_over_a_length_and_is_sent_as_text() -> None:
    (request,) = requests_from(DEFAULTS | {"prompt": "hello", "n": "2", "temperature": "0.5", "seed": "3"}, 1)
    assert (request.prompt, request.prompt_token_ids) == ("hello", None)
    assert (request.n, request.temperature, request.seed) == (2, 0.5, 3)


def test_requests_with_a_seed_draw_from_streams_of_their_own() -> None:
    requests = requests_from(DEFAULTS | {"seed": "10", "n": "4", "count": "3", "temperature": "1"}, 1)
    assert [request.seed for request in requests] == [10, 14, 18]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("length", "-1", "or length: is -1, expected 1 to 1,000,000"),
        ("count", "many", "requests: 'many' is not a whole number"),
        ("max_tokens", "0", "max tokens: is 0"),
        ("temperature", "hot", "temperature: 'hot' is not a number"),
        ("temperature", "nan", "temperature: is nan, expected a finite number"),
        ("temperature", "-1", "temperature: is -1, expected 0 or more"),
    ],
)
def test_what_is_wrong_is_named_by_its_label(field: str, value: str, said: str) -> None:
    with pytest.raises(FormError) as raised:
        requests_from(DEFAULTS | {field: value}, 1)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "n", "count", "at_once", "at_most"),
    [(40, 20, 1, 1, 3, 4), (40, 20, 1, 3, 9, 12), (32, 16, 4, 1, 2, 6), (40, 8, 2, 1, 3, 4), (5, 5000, 1, 1, 1, 64)],
)
def test_the_need_counts_shared_prompt_blocks_once(prompt, max_tokens, n, count, at_once, at_most) -> None:
    requests = [Request(id=str(i), prompt="p", max_tokens=max_tokens, n=n) for i in range(count)]
    need = need_of(requests, [prompt] * count, 16, 1024)
    assert (need.at_once, need.at_most) == (at_once, at_most)


def workload(folder: Path, *requests: dict[str, object]) -> str:
    (folder / "load.json").write_text(json.dumps({"requests": list(requests)}))
    return str(folder / "load.json")


def test_a_workload_file_takes_the_place_of_all_other_fields(tmp_path: Path) -> None:
    file = workload(tmp_path, {"id": "a", "prompt": "hello"}, {"id": "b", "prompt_token_ids": [1, 2], "arrival_s": 2.0})
    requests = requests_from(DEFAULTS | {"file": f" {file} ", "count": "nonsense"}, 7)
    assert [(request.id, request.arrival_s) for request in requests] == [("a", 0.0), ("b", 2.0)]
    workload(tmp_path, {"id": "c", "prompt": "changed meanwhile"})
    assert [request.id for request in requests_from(DEFAULTS | {"file": file}, 7)] == ["c"]


def test_a_broken_workload_file_is_named_with_the_place_of_the_fault(tmp_path: Path) -> None:
    file = workload(tmp_path, {"id": "a", "prompt": "hello"}, {"id": "a", "prompt": "again"})
    with pytest.raises(FormError, match=r"^workload file: requests\[1\] \(id 'a'\)"):
        requests_from(DEFAULTS | {"file": file}, 1)
    with pytest.raises(FormError, match="workload file: cannot be read"):
        requests_from(DEFAULTS | {"file": str(tmp_path)}, 1)


def test_the_need_of_different_requests_is_the_sum_of_theirs() -> None:
    requests = [Request(id="a", prompt="p", max_tokens=20), Request(id="b", prompt="q", max_tokens=16, n=4)]
    need = need_of(requests, [40, 32], 16, 1024)
    assert (need.at_once, need.at_most) == (3 + 2, 4 + 6)


def test_a_typed_prompt_is_a_users_turn_where_the_model_has_a_chat_template() -> None:
    asked = DEFAULTS | {"prompt": "hello↵there"}
    (request,) = requests_from(asked, 1, has_chat_template=True)
    assert (request.chat, request.prompt) == (True, "hello\nthere")
    assert not requests_from(asked, 1, has_chat_template=False)[0].chat
    assert not requests_from(asked | {"chat": "no"}, 1, has_chat_template=True)[0].chat
    assert not requests_from(DEFAULTS, 1, has_chat_template=True)[0].chat


def test_ignore_eos_is_a_yes_or_a_no() -> None:
    assert requests_from(DEFAULTS | {"ignore_eos": "yes"}, 1)[0].ignore_eos
    with pytest.raises(FormError, match="ignore eos: is 'maybe', expected yes or no"):
        requests_from(DEFAULTS | {"ignore_eos": "maybe"}, 1)
