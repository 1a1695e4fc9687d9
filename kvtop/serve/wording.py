"""Pieces of an answer → what the client is sent: one writer a call, for the two interfaces.

A writer turns each piece into a body of a stream, or adds all pieces up into one whole body. Single tokens are named by
how they read by themselves, as the engine spells them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kvtop.engine.events import FinishReason
from kvtop.serve import told
from kvtop.serve.answer import Call, Piece

_FINISH: dict[FinishReason, told.FinishWord] = {
    "stop": "stop",
    "length": "length",
    "pool_exhausted": "length",
    "abort": "abort",
}

Spelling = Mapping[int, str]
Chunk = told.Completion | told.ChatChunk
Whole = told.Completion | told.ChatCompletion


class Writer(Protocol):
    def chunk(self, piece: Piece, spelling: Spelling) -> Chunk | None:
        """What a piece reads as in a stream; None where it holds nothing to send yet."""
        ...

    def closing(self, usage: told.Usage) -> Chunk:
        """A last body of a stream, with the counts."""
        ...

    def whole(self, pieces: list[Piece], spelling: Spelling, usage: told.Usage) -> Whole:
        """All pieces as one body."""
        ...


def usage_of(call: Call) -> told.Usage:
    """The counts so far."""
    prompt, generated, cached = call.prompt_tokens, call.generated, call.cached_tokens
    details = None if cached is None else told.CachedTokens(cached)
    return told.Usage(prompt, generated, prompt + generated, details)


def tokens_named(piece: Piece) -> set[int]:
    """The tokens whose spelling a piece's log-probabilities need."""
    return {token for token, _ in piece.top} | ({piece.token} if piece.token is not None else set())


class CompletionWriter:
    """For ``/v1/completions``."""

    def __init__(self, call_id: str, model: str, created: int, choices: int, logprobs: bool) -> None:
        self._id, self._model, self._created = call_id, model, created
        self._choices = choices
        self._logprobs = logprobs
        self._written = [0] * choices
        """Characters of each choice so far."""

    def chunk(self, piece: Piece, spelling: Spelling) -> told.Completion | None:
        if not (piece.text or piece.finish or self._logprobs):
            return None
        return self._body([self._choice(piece.choice, [piece], spelling)])

    def closing(self, usage: told.Usage) -> told.Completion:
        return self._body([], usage)

    def whole(self, pieces: list[Piece], spelling: Spelling, usage: told.Usage) -> told.Completion:
        own: list[list[Piece]] = [[] for _ in range(self._choices)]
        for piece in pieces:
            own[piece.choice].append(piece)
        return self._body([self._choice(index, part, spelling) for index, part in enumerate(own)], usage)

    def _body(self, choices: list[told.CompletionChoice], usage: told.Usage | None = None) -> told.Completion:
        return told.Completion(id=self._id, created=self._created, model=self._model, choices=choices, usage=usage)

    def _choice(self, index: int, pieces: list[Piece], spelling: Spelling) -> told.CompletionChoice:
        logprobs = told.CompletionLogprobs() if self._logprobs else None
        for piece in pieces:
            if logprobs is not None and piece.token is not None:
                logprobs.text_offset.append(self._written[index])
                logprobs.tokens.append(spelling[piece.token])
                logprobs.token_logprobs.append(_finite(piece.logprob))
                likeliest = {spelling[token]: _finite(logprob) for token, logprob in reversed(piece.top)}
                logprobs.top_logprobs.append(likeliest | {spelling[piece.token]: _finite(piece.logprob)})
            self._written[index] += len(piece.text)
        finish, stop_reason = _end_of(pieces)
        return told.CompletionChoice(
            index=index,
            text="".join(piece.text for piece in pieces),
            logprobs=logprobs,
            finish_reason=finish,
            stop_reason=stop_reason,
        )


class ChatWriter:
    """For ``/v1/chat/completions``."""

    def __init__(self, call_id: str, model: str, created: int, choices: int, logprobs: bool) -> None:
        self._id, self._model, self._created = call_id, model, created
        self._choices = choices
        self._logprobs = logprobs
        self._silent = set(range(choices))
        """Choices that have said nothing yet: the first body names the role."""

    def chunk(self, piece: Piece, spelling: Spelling) -> told.ChatChunk | None:
        if not (piece.text or piece.finish or self._logprobs):
            return None
        finish, stop_reason = _end_of([piece])
        delta = told.ChatDelta(content=piece.text if piece.token is not None else None)
        if piece.choice in self._silent:
            self._silent.discard(piece.choice)
            delta = told.ChatDelta("assistant", piece.text)
        choice = told.ChatChunkChoice(
            index=piece.choice,
            delta=delta,
            logprobs=self._logprobs_of([piece], spelling),
            finish_reason=finish,
            stop_reason=stop_reason,
        )
        return told.ChatChunk(id=self._id, created=self._created, model=self._model, choices=[choice])

    def closing(self, usage: told.Usage) -> told.ChatChunk:
        return told.ChatChunk(id=self._id, created=self._created, model=self._model, choices=[], usage=usage)

    def whole(self, pieces: list[Piece], spelling: Spelling, usage: told.Usage) -> told.ChatCompletion:
        own: list[list[Piece]] = [[] for _ in range(self._choices)]
        for piece in pieces:
            own[piece.choice].append(piece)
        choices = []
        for index, part in enumerate(own):
            finish, stop_reason = _end_of(part)
            choices.append(
                told.ChatChoice(
                    index=index,
                    message=told.ChatMessage("assistant", "".join(piece.text for piece in part)),
                    logprobs=self._logprobs_of(part, spelling),
                    finish_reason=finish,
                    stop_reason=stop_reason,
                )
            )
        return told.ChatCompletion(id=self._id, created=self._created, model=self._model, choices=choices, usage=usage)

    def _logprobs_of(self, pieces: list[Piece], spelling: Spelling) -> told.ChatLogprobs | None:
        if not self._logprobs:
            return None
        return told.ChatLogprobs(
            [
                told.ChatToken(
                    *_likely(spelling[piece.token], piece.logprob),
                    [told.LikelyToken(*_likely(spelling[token], logprob)) for token, logprob in piece.top],
                )
                for piece in pieces
                if piece.token is not None
            ]
        )


def _likely(text: str, logprob: float) -> tuple[str, float, list[int]]:
    return text, _finite(logprob), list(text.encode("utf-8", "replace"))


def _finite(logprob: float) -> float:
    """JSON has no infinity; vLLM sends the same number for a token that cannot be."""
    return max(logprob, -9999.0)


def _end_of(pieces: list[Piece]) -> tuple[told.FinishWord | None, str | int | None]:
    """How a choice ended, where one of these pieces is its end."""
    for piece in pieces:
        if piece.finish is not None:
            ran_out = "pool_exhausted" if piece.finish == "pool_exhausted" else None
            return _FINISH.get(piece.finish, "error"), piece.stop_reason or ran_out
    return None, None
