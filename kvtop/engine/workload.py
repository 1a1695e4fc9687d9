"""A workload file → requests, or one sentence that says where the file is wrong.

The format is docs/workload.md: a JSON object whose ``requests`` have the fields of :class:`Request`. It is read
strictly: an unknown key, a duplicate id or a value of the wrong type refuses the whole file by position, id and key, so
nothing of a wrong workload ever runs.
"""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from kvtop.engine.requests import Request
from kvtop.failure import Failure
from kvtop.type_words import in_our_words, named


class WorkloadError(Failure):
    """The file cannot be run; the message begins with its name and the position of what is wrong."""


def read_workload(path: Path) -> list[Request]:
    """The requests of a workload file, in file order.

    Raises:
        WorkloadError: the file is missing, not JSON, or breaks a rule of the format.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise WorkloadError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WorkloadError(f"{path}: is not UTF-8 text at byte {error.start}") from error
    try:
        return parse_workload(text)
    except WorkloadError as error:
        raise WorkloadError(f"{path}: {error}") from error.__cause__


def parse_workload(text: str) -> list[Request]:
    """The requests of a workload given as JSON text, in its order.

    Raises:
        WorkloadError: the text is not JSON, or breaks a rule of the format.
    """
    try:
        document = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise WorkloadError(f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise WorkloadError("is not a workload: nested too deeply") from error
    except ValueError as error:  # a number of thousands of digits
        raise WorkloadError(f"is not a workload: {error}") from error
    if not isinstance(document, dict) or "requests" not in document:
        raise WorkloadError('expected an object with the key "requests", a list')
    for key in document:
        if key != "requests":
            raise WorkloadError(f'unknown key {key!r} beside "requests"')
    listed = document["requests"]
    if not isinstance(listed, list) or not listed:
        raise WorkloadError(f"requests: expected a list of at least one request, got {_named(listed)}")
    requests: list[Request] = []
    positions: dict[str, int] = {}
    for position, raw in enumerate(listed):
        request = _parse_request(position, raw)
        if request.id in positions:
            _refuse(position, raw, f"id: is also that of requests[{positions[request.id]}]; every id must be its own")
        positions[request.id] = position
        requests.append(request)
    return requests


def _parse_request(position: int, raw: Any) -> Request:
    if not isinstance(raw, dict):
        _refuse(position, raw, f"expected an object, got {_named(raw)}")
    for key in raw:
        if key not in Request.__struct_fields__:
            near = difflib.get_close_matches(key, Request.__struct_fields__, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(Request.__struct_fields__)}"
            _refuse(position, raw, f"unknown key {key!r}; {hint}")
    try:
        request = msgspec.convert(raw, Request)
    except msgspec.ValidationError as error:
        _refuse(position, raw, in_our_words(str(error)))
    if broken := request.check():
        _refuse(position, raw, broken)
    return request


def _refuse(position: int, raw: Any, what: str) -> NoReturn:
    name = raw.get("id") if isinstance(raw, dict) else None
    where = f"requests[{position}]" + (f" (id {name!r})" if isinstance(name, str) else "")
    raise WorkloadError(f"{where}: {what}")


def _named(value: object) -> str:
    if value == []:
        return "an empty list"
    return named("null" if value is None else type(value).__name__)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise WorkloadError(f"key {key!r} stands twice in one object, which begins {json.dumps(made)[:60]}")
        made[key] = value
    return made


def _no_constant(name: str) -> NoReturn:
    raise WorkloadError(f"is not JSON: {name} is no number there")
