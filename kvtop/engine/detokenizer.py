"""Tokens → text while they come, and prompts → tokens.

One idea: a token's text is what decoding gains by it, read against a short window of tokens before it, so a step costs
the same however long the answer is. Text is final once it is given out: the beginning of a character waits for its
end (a token may be a single byte of an emoji), and what may be the beginning of a stop string waits until it is not.

    tokens   … │ context │ pending         decode(context + pending) = settled text + new text
                                           new text = given out already + final now + held back (U+FFFD at its end)
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from kvtop.engine.requests import Request, Turn

_REPLACEMENT = "\ufffd"
_LONGEST_PIECE = 4
"""Bytes of the longest UTF-8 character; a token holds at least one, so this many tokens end any character."""
_MANY_PENDING = 16
"""Pending tokens after which it is worth looking for a place to cut the window."""


class TextCodec:
    """A tokenizer, seen from the engine."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._special = frozenset(tokenizer.all_special_ids)
        backend = getattr(tokenizer, "backend_tokenizer", None)
        self._decode = self._decode_slowly if backend is None else backend.decode

    @property
    def has_chat_template(self) -> bool:
        """Whether ``encode`` can take ``chat``."""
        return bool(self._tokenizer.chat_template)

    def encode(self, prompt: str, *, chat: bool = False) -> list[int]:
        """The prompt's token ids. Plain text gets what the model wants before a text (a BOS); with ``chat`` the prompt
        becomes a user's turn in the model's chat template. A lone surrogate is read as U+FFFD.

        Raises:
            ValueError: ``chat`` was asked for and the tokenizer has no chat template.
        """
        text = prompt.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if not chat:
            return list(self._tokenizer(text)["input_ids"])
        if not self._tokenizer.chat_template:
            raise ValueError("chat: this model has no chat template, send the prompt as plain text")
        return self.encode_turns([Turn("user", text)])

    def encode_turns(self, turns: list[Turn]) -> list[int]:
        """A conversation in the model's chat template, up to where the answer begins.

        Raises:
            ValueError: the tokenizer has no chat template, or its template refuses these turns.
        """
        if not self._tokenizer.chat_template:
            raise ValueError("messages: this model has no chat template, send a plain prompt")
        from jinja2 import TemplateError  # comes with torch, like the template's reader

        spoken = [{"role": turn.role, "content": turn.content} for turn in turns]
        try:
            encoded = self._tokenizer.apply_chat_template(spoken, add_generation_prompt=True, return_dict=True)
        except TemplateError as error:  # templates refuse by raising: roles that must alternate, an unknown role
            raise ValueError(f"messages: the model's chat template says: {error}") from None
        return list(encoded["input_ids"])

    def decode(self, token_ids: list[int]) -> str:
        """The text of a whole answer, special tokens left out."""
        return self._decode(token_ids)

    def stream(self, request: Request) -> TextStream:
        """A stream for one sequence of ``request``."""
        return TextStream(PieceDecoder(self._decode, self._special), request.stop)

    def _decode_slowly(self, token_ids: list[int]) -> str:
        """For the few tokenizers that are written in Python."""
        text: str = self._tokenizer.decode(token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text


class TextStream:
    """The answer of one sequence: its final text, and the stop string it met."""

    def __init__(self, pieces: PieceDecoder, stops: list[str]) -> None:
        self._pieces = pieces
        self._stops = stops
        self._longest_stop = max(map(len, stops), default=0)
        self._held = ""
        self._final: list[str] = []
        self.stopped: str | None = None
        """The stop string that ended the text; the text ends before it, and later tokens are ignored."""

    @property
    def text(self) -> str:
        """All final text so far."""
        return "".join(self._final)

    def push(self, token: int) -> str:
        """The text that is final with ``token``; often empty."""
        if self.stopped is not None:
            return ""
        return self._release(self._pieces.push(token))

    def flush(self) -> str:
        """The answer ends here: the rest of its text, an unfinished character as U+FFFD."""
        if self.stopped is not None:
            return ""
        text = self._release(self._pieces.flush())
        if self.stopped is None:
            text += self._held
            self._final.append(self._held)
            self._held = ""
        return text

    def _release(self, piece: str) -> str:
        if not self._stops:
            self._final.append(piece)
            return piece
        if not piece:
            return ""
        text = self._held + piece
        met = _first_to_end(text, self._stops, len(self._held))
        if met is not None:
            self.stopped, end = met
            text, self._held = text[: end - len(self.stopped)], ""
        else:
            kept = len(text) - _held_back(text, self._stops, self._longest_stop)
            text, self._held = text[:kept], text[kept:]
        self._final.append(text)
        return text


def _first_to_end(text: str, stops: list[str], old: int) -> tuple[str, int] | None:
    """The stop string in ``text`` that ends first, and where; of two that end together the longer. None ends within the
    first ``old`` characters. So the outcome is that of reading character by character, however tokens cut the text."""
    best: tuple[str, int] | None = None
    for stop in stops:
        start = text.find(stop, max(0, old - len(stop) + 1))
        end = start + len(stop)
        if start >= 0 and (best is None or (end, -len(stop)) < (best[1], -len(best[0]))):
            best = stop, end
    return best


def _held_back(text: str, stops: list[str], longest: int) -> int:
    """How many characters at the end of ``text`` may be the beginning of a stop string."""
    for start in range(max(0, len(text) - longest + 1), len(text)):
        if any(stop.startswith(text[start:]) for stop in stops):
            return len(text) - start
    return 0


class PieceDecoder:
    """Token by token, the text that can no longer change."""

    def __init__(self, decode: Callable[[list[int]], str], special: Collection[int]) -> None:
        """``decode`` leaves out tokens of ``special``."""
        self._decode = decode
        self._special = special
        self._context: list[int] = []
        self._settled = ""
        """decode(context)"""
        self._pending: list[int] = []
        self._given = 0
        """Characters of the pending tokens' text that were given out."""

    def push(self, token: int) -> str:
        """The text that is final with ``token``."""
        if token in self._special:
            return ""
        self._pending.append(token)
        new = self._text_of(self._pending)
        held = min(len(new) - len(new.rstrip(_REPLACEMENT)), _LONGEST_PIECE - 1)
        piece = new[self._given : len(new) - held]
        self._given += len(piece)
        if new and not held:
            self._cut(len(self._pending), len(new))
        elif len(self._pending) >= _MANY_PENDING:
            self._cut_where_settled(new)
        return piece

    def flush(self) -> str:
        """The rest, when no token follows."""
        new = self._text_of(self._pending) if self._pending else ""
        rest = new[self._given :]
        self._cut(len(self._pending), len(new))
        return rest

    def _text_of(self, tokens: list[int]) -> str:
        """What ``tokens`` add to the text of the context."""
        text = self._decode(self._context + tokens)
        if text.startswith(self._settled):
            return text[len(self._settled) :]
        # A byte-fallback run that was right so far and is not any more: what was given out stays.
        return self._decode(tokens)

    def _cut(self, tokens: int, characters: int) -> None:
        """The first ``tokens`` pending ones, which added ``characters``, become the context."""
        self._context, self._pending = self._pending[:tokens], self._pending[tokens:]
        self._settled = self._decode(self._context)
        self._given = max(0, self._given - characters)

    def _cut_where_settled(self, new: str) -> None:
        """Shorten a window that never ends in a whole character, at a place no later token can change."""
        for kept in range(_LONGEST_PIECE, len(self._pending)):
            head = self._text_of(self._pending[:-kept])
            if len(head) <= self._given and new.startswith(head):
                self._cut(len(self._pending) - kept, len(head))
                return
