"""The bodies of answers, as the OpenAI interface defines them; ``stop_reason`` is vLLM's. They make the OpenAPI
description, too."""

from __future__ import annotations

from typing import Literal

import msgspec

FinishWord = Literal["stop", "length", "abort", "error"]


class CachedTokens(msgspec.Struct):
    cached_tokens: int


class Usage(msgspec.Struct):
    """Tokens of the whole call."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens | None = None
    """None while an answer is under way."""


class CompletionLogprobs(msgspec.Struct):
    """One entry a token; ``text_offset`` counts characters of the answer's text."""

    text_offset: list[int] = []
    token_logprobs: list[float] = []
    tokens: list[str] = []
    top_logprobs: list[dict[str, float]] = []


class CompletionChoice(msgspec.Struct, kw_only=True):
    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: FinishWord | None = None
    stop_reason: str | int | None = None
    """The stop string or token that ended it; ``pool_exhausted``: memory ran out and nothing was left to preempt."""


class Completion(msgspec.Struct, kw_only=True):
    """A whole answer, or with ``stream`` one piece of it."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = None


class LikelyToken(msgspec.Struct):
    token: str
    logprob: float
    bytes: list[int]


class ChatToken(LikelyToken):
    top_logprobs: list[LikelyToken]


class ChatLogprobs(msgspec.Struct):
    content: list[ChatToken]


class ChatMessage(msgspec.Struct):
    role: Literal["assistant"]
    content: str


class ChatChoice(msgspec.Struct, kw_only=True):
    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: FinishWord | None = None
    stop_reason: str | int | None = None


class ChatCompletion(msgspec.Struct, kw_only=True):
    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage | None = None


class ChatDelta(msgspec.Struct, omit_defaults=True):
    role: Literal["assistant"] | None = None
    content: str | None = None


class ChatChunkChoice(msgspec.Struct, kw_only=True):
    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None = None
    finish_reason: FinishWord | None = None
    stop_reason: str | int | None = None


class ChatChunk(msgspec.Struct, kw_only=True):
    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: Usage | None = None


class Model(msgspec.Struct, kw_only=True):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "kvtop"
    max_model_len: int


class Models(msgspec.Struct, kw_only=True):
    object: Literal["list"] = "list"
    data: list[Model]


class Tokens(msgspec.Struct):
    """How many tokens a prompt has."""

    count: int
    max_model_len: int


class FaultDetail(msgspec.Struct):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class Fault(msgspec.Struct):
    error: FaultDetail
