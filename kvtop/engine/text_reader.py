"""Text of running sequences: one incremental stream a sequence, made by the model's codec.

The engine core deals in token ids; this is the one place where they become text, and where a stop string is noticed.
"""

from __future__ import annotations

from typing import Protocol

from kvtop.engine.requests import Request, Turn
from kvtop.engine.sequences import Sequence


class TextStream(Protocol):
    """Incremental text of one sequence."""

    @property
    def stopped(self) -> str | None:
        """The stop string the text has run into."""
        ...

    @property
    def text(self) -> str:
        """All text that is final so far."""
        ...

    def push(self, token: int) -> str: ...

    def flush(self) -> str: ...


class TextCodec(Protocol):
    """A tokenizer, as far as the engine needs one."""

    def encode(self, prompt: str, *, chat: bool = False) -> list[int]:
        """
        Raises:
            ValueError: ``chat`` was asked for and there is no chat template; the message begins with "chat: ".
        """
        ...

    def encode_turns(self, turns: list[Turn]) -> list[int]:
        """A conversation, up to where the answer begins.

        Raises:
            ValueError: there is no chat template, or it does not take these turns; begins with "messages: ".
        """
        ...

    def decode(self, tokens: list[int]) -> str: ...

    def stream(self, request: Request) -> TextStream: ...


class StreamReader:
    """Keeps the stream of every sequence that has generated something."""

    def __init__(self, codec: TextCodec) -> None:
        self._codec = codec
        self._streams: dict[int, TextStream] = {}

    def push(self, sequence: Sequence, token: int) -> str:
        stream = self._streams.get(sequence.seq)
        if stream is None:
            stream = self._streams[sequence.seq] = self._codec.stream(sequence.request)
        return stream.push(token)

    def stop_met(self, sequence: Sequence) -> str | None:
        return self._streams[sequence.seq].stopped

    def close(self, sequence: Sequence) -> str:
        return self._streams[sequence.seq].flush()

    def decode(self, tokens: list[int]) -> str:
        return self._codec.decode(tokens)

    def text(self, sequence: Sequence) -> str:
        """Everything it has said so far."""
        stream = self._streams.get(sequence.seq)
        return stream.text if stream else ""

    def keep_only(self, unfinished: set[int]) -> None:
        """Drop the streams of sequences that ended."""
        for seq in self._streams.keys() - unfinished:
            del self._streams[seq]
