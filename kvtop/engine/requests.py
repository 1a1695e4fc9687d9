"""What a caller asks for: one request, as it stands in a workload file, the inject form or an HTTP body.

A request is plain data and knows nothing of blocks or models. ``check()`` holds every rule a value must keep and
returns the first broken one as a sentence a person can act on; ``sampling_seed`` is the one place that says which
random stream a sample draws from.
"""

from __future__ import annotations

import math

import msgspec


class Turn(msgspec.Struct, forbid_unknown_fields=True):
    """One turn of a conversation."""

    role: str
    content: str


class Request(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One request. Exactly one of ``prompt``, ``prompt_token_ids`` and ``messages`` is given.

    The fields are those of a workload file (docs/workload.md).
    """

    id: str
    prompt: str | None = None
    prompt_token_ids: list[int] | None = None
    messages: list[Turn] | None = None
    """A conversation, to be put into the model's chat template."""
    chat: bool = False
    """The prompt is a user's turn, to be put into the model's chat template."""
    max_tokens: int = 16
    arrival_s: float = 0.0
    """Seconds after the start at which it arrives."""
    arrival_step: int | None = None
    """Arrives when the engine reaches this step; excludes ``arrival_s``."""
    priority: int = 0
    """A smaller number goes first."""
    n: int = 1
    """Parallel samples of the one prompt."""
    beam_width: int = 0
    """0: no beam search."""
    length_penalty: float = 1.0
    early_stopping: bool = False
    temperature: float = 0.0
    """0: greedy."""
    top_k: int = 0
    """0: all."""
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    stop: list[str] = []
    stop_token_ids: list[int] = []
    ignore_eos: bool = False
    logprobs: int | None = None
    """How many of the likeliest tokens to report beside each sampled one."""
    salt: str = ""
    """Requests share cached prefixes only with requests of the same salt."""

    @property
    def shown_prompt(self) -> str:
        """What is asked, for people: the prompt, or the last turn of the conversation. Untrusted; may be empty."""
        return self.prompt or (self.messages[-1].content if self.messages else "")

    def check(self) -> str | None:
        """The first rule this request breaks, as "field: what was wrong, what is expected", or None."""
        if not self.id:
            return "id: is empty, expected text"
        for name, texts in (
            ("id", [self.id]),
            ("prompt", [self.prompt or ""]),
            ("stop", self.stop),
            ("salt", [self.salt]),
            ("messages", [text for turn in self.messages or () for text in (turn.role, turn.content)]),
        ):
            if not all(_is_whole(text) for text in texts):
                return f"{name}: holds half of a surrogate pair (\\ud800 to \\udfff), expected whole characters"
        if self.prompt == "":
            return "prompt: is empty, expected text"
        if sum(given is not None for given in (self.prompt, self.prompt_token_ids, self.messages)) != 1:
            return "prompt: give exactly one of prompt, prompt_token_ids and messages"
        if self.chat and self.prompt is None:
            return "chat: goes with prompt; messages are a chat by themselves, prompt_token_ids are taken as they are"
        if self.messages is not None and not self.messages:
            return "messages: is empty, expected at least one turn"
        if self.prompt_token_ids is not None:
            if not self.prompt_token_ids:
                return "prompt_token_ids: is empty, expected at least one token id"
            if min(self.prompt_token_ids) < 0:
                return f"prompt_token_ids: {min(self.prompt_token_ids)} is negative, expected token ids of 0 or more"
        if self.arrival_step is not None and self.arrival_s:
            return "arrival_step: excludes arrival_s, give one of them"
        if self.beam_width and self.n > 1:
            return f"n: is {self.n} with beam_width {self.beam_width}; beam search returns one answer, leave n at 1"
        if self.beam_width and self.temperature:
            return f"temperature: is {self.temperature:g} with beam_width {self.beam_width}; beam search needs 0"
        if self.beam_width and self.stop:
            return "stop: is not available with beam_width; use stop_token_ids"
        if self.beam_width == 1:
            return "beam_width: is 1, expected 0 (no beam search) or at least 2"
        for name in ("arrival_s", "temperature", "repetition_penalty", "length_penalty"):
            if not math.isfinite(getattr(self, name)):
                return f"{name}: is {getattr(self, name)}, expected a finite number"
        if self.seed is not None and not -(2**63) <= self.seed < 2**63:
            return f"seed: is {self.seed}, expected a whole number of 64 bits"
        for name, low in (
            ("max_tokens", 1),
            ("n", 1),
            ("arrival_s", 0),
            ("arrival_step", 0),
            ("beam_width", 0),
            ("temperature", 0),
            ("top_k", 0),
            ("logprobs", 0),
        ):
            value = getattr(self, name)
            if value is not None and not value >= low:
                return f"{name}: is {value:g}, expected {low} or more"
        for name, low, high in (("top_p", 0, 1), ("min_p", 0, 1)):
            value = getattr(self, name)
            if not (low < value <= high if name == "top_p" else low <= value <= high):
                return (
                    f"{name}: is {value:g}, expected a number {'above' if name == 'top_p' else 'from'} {low} to {high}"
                )
        if not self.repetition_penalty > 0:
            return f"repetition_penalty: is {self.repetition_penalty:g}, expected above 0"
        if any(not text for text in self.stop):
            return "stop: holds an empty string, expected strings of at least one character"
        return None


def _is_whole(text: str) -> bool:
    """Whether every character can be written as UTF-8; half of a surrogate pair cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def sampling_seed(request: Request, index: int) -> int | None:
    """The seed of the ``index``-th of ``n`` samples: sample i of a request with seed s draws what a single request with
    seed s + i would draw. None when the request has no seed."""
    return None if request.seed is None else request.seed + index


def stop_tokens(request: Request, eos_token_ids: frozenset[int]) -> frozenset[int]:
    """The token ids that end an answer to this request."""
    own = frozenset(request.stop_token_ids)
    return own if request.ignore_eos else own | eos_token_ids
