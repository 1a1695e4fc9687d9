"""The bodies of the two calls, as the OpenAI interface defines them, with vLLM's additions that this engine can honour.

Types and simple bounds stand here and make the OpenAPI description, too; what fields mean together is judged in
``translate``. A field that is not listed is refused, so that nothing is ignored in silence. Fields of the interface
that this engine has no use for are listed with the values that ask for nothing.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

MAX_PROMPTS = 128
MAX_SAMPLES = 128
MAX_STOPS = 16
MAX_LOGPROBS = 20

Stop = Annotated[str, Meta(min_length=1, max_length=256)]
Stops = Stop | Annotated[list[Stop], Meta(max_length=MAX_STOPS)]
TokenId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Text = Annotated[str, Meta(min_length=1)]
TokenIds = Annotated[list[TokenId], Meta(min_length=1)]


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    include_usage: bool | None = False
    """A last piece with the token counts of the whole answer."""
    continuous_usage_stats: bool | None = False
    """The counts so far in every piece (vLLM's)."""


class Asked(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What both calls have."""

    model: Text
    n: Annotated[int, Meta(ge=1, le=MAX_SAMPLES)] | None = 1
    seed: Int64 | None = None
    stop: Stops | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = 1.0
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = 1.0
    user: str | None = None
    """Taken, and not looked at."""

    # vLLM's
    top_k: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | None = 0
    """0 and -1: all."""
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = 0.0
    repetition_penalty: Annotated[float, Meta(ge=0.01, le=100)] | None = 1.0
    ignore_eos: bool | None = False
    stop_token_ids: Annotated[list[TokenId], Meta(max_length=64)] | None = None
    priority: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] | None = 0
    """A smaller number goes first."""
    cache_salt: Annotated[str, Meta(max_length=256)] | None = None
    """Prefixes are shared only with calls of the same salt."""

    # what this engine does not do: only values that ask for nothing
    presence_penalty: Annotated[float, Meta(ge=0, le=0)] | None = None
    frequency_penalty: Annotated[float, Meta(ge=0, le=0)] | None = None
    logit_bias: Annotated[dict[str, float], Meta(max_length=0)] | None = None


class CompletionAsked(Asked, kw_only=True, forbid_unknown_fields=True):
    """Body of ``/v1/completions``."""

    prompt: (
        Text
        | Annotated[
            list[Text | TokenId | TokenIds],
            Meta(min_length=1, description="texts, token ids of one prompt, or lists of token ids"),
        ]
    )
    max_tokens: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = 16
    logprobs: Annotated[int, Meta(ge=0, le=MAX_LOGPROBS)] | None = None
    best_of: Annotated[int, Meta(ge=1, le=1)] | None = None
    echo: Literal[False] | None = None
    suffix: Annotated[str, Meta(max_length=0)] | None = None


class TextPart(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["text"]
    text: str


class Message(msgspec.Struct, forbid_unknown_fields=True):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | Annotated[list[TextPart], Meta(min_length=1)]
    name: str | None = None
    """Taken, and not looked at."""


class TokenizeAsked(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Body of ``/tokenize``: exactly one of ``prompt`` and ``messages``."""

    model: Text | None = None
    prompt: Text | None = None
    messages: Annotated[list[Message], Meta(min_length=1)] | None = None


class TextFormat(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["text"]


class ChatAsked(Asked, kw_only=True, forbid_unknown_fields=True):
    """Body of ``/v1/chat/completions``."""

    messages: Annotated[list[Message], Meta(min_length=1)]
    max_tokens: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    """None: as many as the model's length allows."""
    max_completion_tokens: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    """The newer name of ``max_tokens``."""
    logprobs: bool | None = False
    top_logprobs: Annotated[int, Meta(ge=0, le=MAX_LOGPROBS)] | None = None
    response_format: TextFormat | None = None
    tools: Annotated[list[dict[str, str]], Meta(max_length=0)] | None = None
    tool_choice: Literal["none", "auto"] | None = None
