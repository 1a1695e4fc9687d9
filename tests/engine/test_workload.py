"""A workload file is read whole and rightly, or refused by position, id and key with nothing read."""

import json
from pathlib import Path
from typing import Any

import pytest

from kvtop.engine.workload import WorkloadError, parse_workload, read_workload

FIXTURES = Path(__file__).parent.parent / "fixtures"


def one(**fields: Any) -> str:
    return json.dumps({"requests": [{"id": "first", "prompt": "x"}, {"id": "a", **fields}]})


def test_the_benchmark_workloads_are_read_in_file_order() -> None:
    requests = read_workload(FIXTURES / "workload64.json")
    assert [request.id for request in requests] == [f"w{index:02d}" for index in range(64)]
    assert sum(len(request.prompt_token_ids or []) for request in requests) == 15_828
    assert sum(request.max_tokens for request in requests) == 8_418
    assert all(request.ignore_eos for request in requests)
    assert {len(r.prompt_token_ids or []) for r in read_workload(FIXTURES / "batch57.json")} == {57}


def test_every_documented_key_is_read() -> None:
    documented = {
        "id": "a", "prompt": "x", "max_tokens": 3, "arrival_s": 0.5, "priority": -1, "n": 2, "temperature": 0.7,
        "top_k": 5, "top_p": 0.9, "min_p": 0.1, "seed": 7, "stop": ["."], "ignore_eos": True,
    }  # fmt: skip
    (request,) = parse_workload(json.dumps({"requests": [documented]}))
    assert {name: getattr(request, name) for name in documented} == documented


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prompt": "x", "max_token": 3}, "unknown key 'max_token'; did you mean max_tokens?"),
        ({"prompt": "x", "max_tokens": "3"}, "max_tokens: expected a whole number, got text"),
        ({"prompt": "x", "max_tokens": -3}, "max_tokens: is -3, expected 1 or more"),
        ({"prompt": "x", "max_tokens": True}, "max_tokens: expected a whole number, got true or false"),
        ({"prompt_token_ids": [1, -2]}, "prompt_token_ids: -2 is negative, expected token ids of 0 or more"),
        ({"prompt_token_ids": [1, "2"]}, "prompt_token_ids[1]: expected a whole number, got text"),
        ({"prompt_token_ids": []}, "prompt_token_ids: is empty, expected at least one token id"),
        ({"prompt": "x", "prompt_token_ids": [1]}, "prompt: give exactly one of prompt, prompt_token_ids and messages"),
        ({"messages": []}, "messages: is empty, expected at least one turn"),
        ({"messages": [{"role": "user"}]}, "messages[0].content: is missing, it is needed there"),
        ({}, "prompt: give exactly one of prompt, prompt_token_ids and messages"),
        ({"prompt": ""}, "prompt: is empty, expected text"),
        ({"prompt": "\ud800"}, "prompt: holds half of a surrogate pair (\\ud800 to \\udfff)"),
        ({"prompt": "x", "seed": 2**64}, "seed: is 18446744073709551616, expected a whole number of 64 bits"),
        ({"prompt": "x", "seed": 1.5}, "seed: expected a whole number or null, got a number"),
        ({"prompt": "x", "stop": ["a", 3]}, "stop[1]: expected text, got a whole number"),
        ({"prompt": "x", "top_p": 0}, "top_p: is 0, expected a number above 0 to 1"),
        ({"prompt": "x", "arrival_s": 1, "arrival_step": 1}, "arrival_step: excludes arrival_s"),
    ],
)
def test_a_wrong_request_is_refused_by_position_id_and_key(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        parse_workload(one(**fields))
    assert str(caught.value).startswith(f"requests[1] (id 'a'): {message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON: Expecting property name enclosed in double quotes at line 1, column 2"),
        ("", "is not JSON: Expecting value at line 1, column 1"),
        ("[1]", 'expected an object with the key "requests", a list'),
        ('{"requests": []}', "requests: expected a list of at least one request, got an empty list"),
        ('{"requests": {}}', "requests: expected a list of at least one request, got an object"),
        ('{"requests": [3]}', "requests[0]: expected an object, got a whole number"),
        ('{"requests": [{"prompt": "x"}]}', "requests[0]: id: is missing, every request needs it"),
        ('{"requests": [{"id": 7}]}', "requests[0]: id: expected text, got a whole number"),
        ('{"requests": [{"id": "", "prompt": "x"}]}', "requests[0] (id ''): id: is empty, expected text"),
        ('{"requests": [{"id": "a", "prompt": "x"}], "seed": 1}', "unknown key 'seed' beside \"requests\""),
        ('{"requests": [{"id": "a", "id": "b"}]}', "key 'id' stands twice in one object"),
        ('{"requests": [{"id": "a", "prompt": "x", "arrival_s": NaN}]}', "is not JSON: NaN is no number there"),
        ('{"requests": [{"id": "a", "prompt": "x", "arrival_s": 1e999}]}', "requests[0] (id 'a'): arrival_s: is inf"),
        ("[" * 100_000, "is not a workload: nested too deeply"),
        ('{"requests": ' + "9" * 5000 + "}", "is not a workload: Exceeds the limit"),
    ],
)
def test_what_is_not_a_workload_is_refused(text: str, message: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        parse_workload(text)
    assert str(caught.value).startswith(message)


def test_a_duplicate_id_is_refused_by_both_positions() -> None:
    twins = [{"id": name, "prompt": "x"} for name in ("a", "b", "c", "b")]
    with pytest.raises(WorkloadError, match=r"^requests\[3\] \(id 'b'\): id: is also that of requests\[1\]"):
        parse_workload(json.dumps({"requests": twins}))


def test_the_message_begins_with_the_file(tmp_path: Path) -> None:
    missing = tmp_path / "none.json"
    with pytest.raises(WorkloadError) as caught:
        read_workload(missing)
    assert str(caught.value) == f"{missing}: cannot be read: No such file or directory"
    latin = tmp_path / "latin.json"
    latin.write_bytes(b'{"requests": "\xe9"}')
    with pytest.raises(WorkloadError, match=r"latin\.json: is not UTF-8 text at byte 14"):
        read_workload(latin)
    wrong = tmp_path / "wrong.json"
    wrong.write_text("[]")
    with pytest.raises(WorkloadError, match=r"wrong\.json: expected an object"):
        read_workload(wrong)
