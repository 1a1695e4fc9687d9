"""Whatever a body holds: it is read into requests that keep every rule of the engine, or refused by field."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtop.serve.asked import Asked, ChatAsked, CompletionAsked
from kvtop.serve.faults import ApiFault
from kvtop.serve.reading import read_body
from kvtop.serve.translate import chat_request, completion_requests

MAX_MODEL_LEN = 2048
plain = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8)
anything = st.recursive(plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner))
turns = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "system", "robot"]), "content": st.text() | anything}),
    max_size=3,
)


def bodies(kind: type[Asked], good: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A good body with some of its fields, or others, replaced by anything."""
    odd = st.dictionaries(st.sampled_from([*kind.__struct_fields__, "max_tokns"]), anything | turns, max_size=4)
    return odd.map(lambda fields: {**good, **fields})


def judge(kind: type[Asked], body: dict[str, Any]) -> None:
    try:
        asked = read_body(msgspec.json.encode(body), kind)
        if isinstance(asked, CompletionAsked):
            requests = completion_requests(asked, "call", MAX_MODEL_LEN)
        else:
            assert isinstance(asked, ChatAsked)
            requests = [chat_request(asked, "call", MAX_MODEL_LEN)]
    except ApiFault as fault:
        assert fault.status == 400
        assert fault.param, fault.message
        assert fault.message.startswith(fault.param), "the message begins with the field"
    else:
        assert requests and all(request.check() is None for request in requests)


@settings(max_examples=120, deadline=None)
@given(bodies(CompletionAsked, {"model": "m", "prompt": "a page"}))
def test_a_completion_is_read_whole_or_refused_by_field(body: dict[str, Any]) -> None:
    judge(CompletionAsked, body)


@settings(max_examples=120, deadline=None)
@given(bodies(ChatAsked, {"model": "m", "messages": [{"role": "user", "content": "a page"}]}))
def test_a_conversation_is_read_whole_or_refused_by_field(body: dict[str, Any]) -> None:
    judge(ChatAsked, body)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60))
def test_bytes_of_any_kind_are_refused_in_words(body: bytes) -> None:
    try:
        read_body(body, CompletionAsked)
    except ApiFault as fault:
        assert fault.status == 400 and fault.message
    else:
        raise AssertionError("so few bytes cannot hold a call")
