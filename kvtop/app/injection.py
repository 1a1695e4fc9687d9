"""From what stands in the inject form to requests, and what those will need. No widgets.

A request is checked here by the rules every request keeps (``Request.check``), a workload file by its own; how many
tokens a prompt has is the engine's to say (Measure), so the need is worked out from counts that are given.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

from kvtop.app.paste import as_text
from kvtop.app.screens.form import Field
from kvtop.engine.requests import Request
from kvtop.engine.tables import blocks_for
from kvtop.engine.workload import WorkloadError, read_workload

MOST_REQUESTS = 10_000
_SAFE_IDS = range(20, 80)
"""Token ids of a prompt that is given as a length: in every vocabulary, and no control tokens."""


FIELDS = (
    Field("prompt", "prompt", "", "text; leave it empty and give a length instead"),
    Field("length", "or length", "64", "tokens of a made-up prompt, each request its own"),
    Field("shared", "of these shared", "0", "so many first tokens are the same in all of them: a common system prompt"),
    Field("count", "requests", "1", "how many of them"),
    Field("rate", "per second", "0", "0: all at once; else they arrive at random (Poisson) at this rate"),
    Field("max_tokens", "max tokens", "64", "at most this many are generated"),
    Field("n", "samples", "1", "parallel answers that share the prompt's blocks"),
    Field("beams", "beams", "0", "0: no beam search"),
    Field("temperature", "temperature", "0", "0 always takes the likeliest token"),
    Field("seed", "seed", "", "empty: a new one each time"),
    Field("priority", "priority", "0", "a smaller number goes first"),
    Field("chat", "chat", "yes", "yes: a typed prompt is a user's turn; a chat model stops at once on raw text"),
    Field("ignore_eos", "ignore eos", "no", "yes: it goes on to max tokens, whatever the model says"),
    Field("file", "workload file", "", "the requests of a JSON file instead; nothing above counts then"),
)
_START = {field.name: field.default for field in FIELDS}

PRESETS: dict[str, dict[str, str]] = {
    "one request": _START,
    "burst": _START | {"count": "24", "length": "96", "max_tokens": "160"},
    "shared prefix": _START | {"count": "12", "length": "160", "shared": "128", "rate": "2", "max_tokens": "96"},
    "long context": _START | {"count": "2", "length": "1200", "max_tokens": "200"},
    "parallel sampling": _START | {"count": "2", "length": "120", "n": "6", "temperature": "0.8", "max_tokens": "120"},
    "pressure until preemption": _START | {"count": "40", "rate": "4", "length": "128", "max_tokens": "400"},
}
"""Forms filled in beforehand, by name."""


class FormError(ValueError):
    """Something in the form is not as it must be; the message names the field."""


def requests_from(values: dict[str, str], first_number: int, has_chat_template: bool = False) -> list[Request]:
    """The requests a filled-in form asks for, named ``req-<number>`` from ``first_number`` on; those of a workload file
    keep the ids they have there. Where the model has no chat template, "chat" is not looked at. Raises FormError."""
    if named := values["file"].strip():
        return _from_file(named)
    count = _whole(values, "count", 1, MOST_REQUESTS)
    rate = _number(values, "rate")
    if rate < 0:
        raise FormError(f"{_label('rate')}: is {rate:g}, expected 0 or more")
    prompt = as_text(values["prompt"])
    length = 0 if prompt else _whole(values, "length", 1, 1_000_000)
    shared = 0 if prompt else _whole(values, "shared", 0, length)
    seed = _whole(values, "seed", 0, 2**31) if values["seed"].strip() else None
    model = Request(
        id="req-0",
        prompt=prompt or None,
        chat=bool(prompt) and has_chat_template and _yes(values, "chat"),
        ignore_eos=_yes(values, "ignore_eos"),
        prompt_token_ids=None if prompt else [_SAFE_IDS.start],
        max_tokens=_whole(values, "max_tokens", 1, 1_000_000),
        n=_whole(values, "n", 1, 1_000),
        beam_width=_whole(values, "beams", 0, 1_000),
        temperature=_number(values, "temperature"),
        seed=seed,
        priority=_whole(values, "priority", -1_000_000, 1_000_000),
    )
    broken = model.check()
    if broken is not None:
        raise FormError(broken)
    gaps = random.Random(first_number)
    common = random.Random(0).choices(_SAFE_IDS, k=shared)
    requests: list[Request] = []
    arrival_s = 0.0
    for number in range(first_number, first_number + count):
        request = msgspec.structs.replace(model, id=f"req-{number}", arrival_s=arrival_s)
        if not prompt:
            request.prompt_token_ids = common + random.Random(number).choices(_SAFE_IDS, k=length - shared)
        if seed is not None:
            request.seed = seed + (number - first_number) * model.n
        requests.append(request)
        arrival_s += gaps.expovariate(rate) if rate else 0.0
    return requests


@dataclass(frozen=True, slots=True)
class Need:
    """Blocks that requests take: ``at_once`` for their prompts, ``at_most`` when every answer is as long as it may."""

    at_once: int
    at_most: int


def need_of(requests: Sequence[Request], prompt_tokens: Sequence[int], block_size: int, max_model_len: int) -> Need:
    """What requests need whose prompts have so many tokens, with nothing found in the prefix cache.

    Samples and beams share the prompt's full blocks; each but the last one to write copies the partly filled one.
    """
    at_once = at_most = 0
    for request, tokens in zip(requests, prompt_tokens, strict=True):
        longest = min(tokens + request.max_tokens, max_model_len)
        shared = tokens // block_size
        at_once += blocks_for(tokens, block_size)
        at_most += shared + max(request.n, request.beam_width) * (blocks_for(longest, block_size) - shared)
    return Need(at_once, at_most)


def _from_file(named: str) -> list[Request]:
    """Raises FormError."""
    path = Path(named).expanduser()
    try:
        return _read(path, path.stat().st_mtime_ns if path.is_file() else 0)
    except WorkloadError as error:
        fault = str(error).removeprefix(f"{path}: ")  # where the file lies stands in the field already
        raise FormError(f"{_label('file')}: {fault}") from error


@lru_cache(maxsize=1)
def _read(path: Path, changed_ns: int) -> list[Request]:
    """The file as it was at its last change: the form asks after every key. Raises WorkloadError."""
    return read_workload(path)


def _whole(values: dict[str, str], name: str, low: int, high: int) -> int:
    text = values[name].strip()
    try:
        value = int(text)
    except ValueError:
        raise FormError(f"{_label(name)}: {text!r} is not a whole number") from None
    if not low <= value <= high:
        raise FormError(f"{_label(name)}: is {value:,}, expected {low:,} to {high:,}")
    return value


def _yes(values: dict[str, str], name: str) -> bool:
    text = values[name].strip().lower()
    if text not in ("yes", "y", "no", "n"):
        raise FormError(f"{_label(name)}: is {text!r}, expected yes or no")
    return text.startswith("y")


def _number(values: dict[str, str], name: str) -> float:
    text = values[name].strip()
    try:
        value = float(text)
    except ValueError:
        raise FormError(f"{_label(name)}: {text!r} is not a number") from None
    if value != value or value in (float("inf"), float("-inf")):
        raise FormError(f"{_label(name)}: is {text}, expected a finite number")
    return value


def _label(name: str) -> str:
    return next(field.label for field in FIELDS if field.name == name)
