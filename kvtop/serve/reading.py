"""A body → what was asked, or a 400 that names the field, what was wrong with it, and what is allowed."""

from __future__ import annotations

import difflib
import re
from typing import Any, TypeVar

import msgspec

from kvtop.serve.asked import Asked, ChatAsked, CompletionAsked, TokenizeAsked
from kvtop.serve.faults import ApiFault, bad_field
from kvtop.type_words import in_our_words

A = TypeVar("A", Asked, CompletionAsked, ChatAsked, TokenizeAsked)

_PATH = re.compile(r" - at `\$(?P<path>[^`]*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>.*)`")

_NOT_DONE = {
    "presence_penalty": "this engine has no presence penalty; leave it out, or see repetition_penalty",
    "frequency_penalty": "this engine has no frequency penalty; leave it out, or see repetition_penalty",
    "logit_bias": "this engine takes no bias; leave it out",
    "best_of": "this engine returns every sample; leave it out and use n",
    "echo": "only the answer is returned here; leave it out",
    "suffix": "this engine inserts nothing before a suffix; leave it out",
    "response_format": 'this engine writes plain text; leave it out, or ask for {"type": "text"}',
    "tools": "this engine calls no tools; leave it out",
    "tool_choice": 'this engine calls no tools; leave it out, or ask for "none"',
}
"""Fields of the interface that this engine does not do."""

_ALLOWED = {"role": "system, developer, user or assistant", "type": "text"}
"""Fields with a few values."""

_DECODERS: dict[type[msgspec.Struct], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in (CompletionAsked, ChatAsked, TokenizeAsked)
}


def read_body(body: bytes, kind: type[A]) -> A:
    """What a body asks for.

    Raises:
        ApiFault: it is not JSON, or a field has a value it cannot have.
    """
    try:
        asked: A = _DECODERS[kind].decode(body)
    except msgspec.ValidationError as error:
        raise _fault(str(error), body, kind) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiFault(400, f"the body is not JSON: {error}") from None
    return asked


def _fault(message: str, body: bytes, kind: type[msgspec.Struct]) -> ApiFault:
    found = _PATH.search(message)
    steps = [name or int(index) for name, index in _STEP.findall(found["path"] if found else "")]
    first = str(steps[0]) if steps else ""
    if first in _NOT_DONE:
        return ApiFault(400, f"{first}: {_NOT_DONE[first]}", param=first)
    if (unknown := _UNKNOWN.match(message)) and not steps:
        near = difflib.get_close_matches(unknown["field"], kind.__struct_fields__, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(kind.__struct_fields__)}"
        return ApiFault(400, f"{unknown['field'][:80]}: is not known here; {hint}", param=unknown["field"][:80])
    words = in_our_words(message, "call")
    field, _, what = words.partition(": ")
    if what.startswith("Invalid enum value"):
        what = f"expected {_ALLOWED.get(str(steps[-1]), 'another value')}"
    value = _value_at(body, steps)
    if what.startswith("expected") and value:
        what = f"is {value}, {what.partition(', got')[0]}"
    return bad_field(f"{field}: {what}") if what else ApiFault(400, words)


def _value_at(body: bytes, steps: list[str | int]) -> str:
    """A plain value in the body, as JSON, cut; empty where it is none."""
    try:
        value: Any = msgspec.json.decode(body)
        for step in steps:
            value = value[step]
    except (msgspec.DecodeError, RecursionError, KeyError, IndexError, TypeError):  # what follows the fault may be one
        return ""
    if isinstance(value, dict | list):
        return ""
    text = msgspec.json.encode(value).decode("utf-8", "replace")
    return text if len(text) <= 60 else text[:57] + "..."
