"""Streaming text: it adds up to the whole, cuts no character, holds back stop strings, and never slows down."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtop.engine.detokenizer import PieceDecoder, TextCodec, TextStream
from kvtop.engine.requests import Request, Turn
from tests.engine.tiny_tokenizers import byte_fallback, byte_level

REPLACEMENT = "\ufffd"
FAMILY = "a👩‍👩‍👧b漢字 é\u0301 🚀"
SPLIT_BYTES = [token for token in range(len(byte_level())) if REPLACEMENT in byte_level().decode([token])]


def stream(tokenizer: Any, stop: list[str] | None = None) -> TextStream:
    return TextCodec(tokenizer).stream(Request(id="r", prompt="x", stop=stop or []))


def whole(tokenizer: Any, tokens: list[int]) -> str:
    return tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def streamed(tokenizer: Any, tokens: list[int]) -> str:
    text = stream(tokenizer)
    pieces = [text.push(token) for token in tokens]
    pieces.append(text.flush())
    assert "".join(pieces) == text.text
    return text.text


any_token = st.integers(0, len(byte_level()) - 1)
mostly_split_bytes = st.one_of(st.sampled_from(SPLIT_BYTES), st.sampled_from(SPLIT_BYTES), any_token)


@given(st.one_of(st.lists(any_token, max_size=80), st.lists(mostly_split_bytes, max_size=80)))
@settings(max_examples=300, deadline=None)
def test_byte_level_pieces_of_any_tokens_add_up_to_the_decoded_whole(tokens: list[int]) -> None:
    assert streamed(byte_level(), tokens) == whole(byte_level(), tokens)


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_pieces_of_any_text_add_up_to_that_text(text: str) -> None:
    for tokenizer in (byte_level(), byte_fallback()):
        tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert streamed(tokenizer, tokens) == whole(tokenizer, tokens)


@pytest.mark.parametrize("tokenizer", [byte_level(), byte_fallback()], ids=["byte-level", "byte-fallback"])
def test_no_piece_ever_holds_half_a_character(tokenizer: Any) -> None:
    text = stream(tokenizer)
    pieces = [text.push(token) for token in tokenizer(FAMILY * 20, add_special_tokens=False)["input_ids"]]
    assert not any(REPLACEMENT in piece for piece in pieces)
    assert "".join(pieces) + text.flush() == FAMILY * 20
    assert len([piece for piece in pieces if piece]) > 20 * 5, "text comes while it is generated"


def test_an_unfinished_character_comes_out_as_a_replacement_when_the_answer_ends() -> None:
    tokens = byte_fallback()("🚀", add_special_tokens=False)["input_ids"]
    text = stream(byte_fallback())
    assert [text.push(token) for token in tokens[:-1]] == [""] * (len(tokens) - 1)
    assert set(text.flush()) == {REPLACEMENT}


def test_a_byte_that_can_never_be_a_character_does_not_hold_back_what_follows() -> None:
    byte = byte_fallback().convert_tokens_to_ids("<0xFF>")
    text = stream(byte_fallback())
    pieces = [text.push(token) for token in [byte, *byte_fallback().convert_tokens_to_ids(["▁the", "s"])]]
    assert pieces == ["", REPLACEMENT + " the", "s"]


def test_text_once_given_out_stays_when_a_byte_run_turns_out_wrong() -> None:
    euro = byte_fallback()("€", add_special_tokens=False)["input_ids"]
    text = stream(byte_fallback())
    given_out = "".join(text.push(token) for token in euro)
    text.push(byte_fallback().convert_tokens_to_ids("<0xFF>"))
    text.flush()
    assert text.text == given_out + REPLACEMENT


def test_special_tokens_give_no_text_and_do_not_disturb_their_neighbours() -> None:
    end = byte_level().eos_token_id
    tokens = byte_level()("page table")["input_ids"]
    mixed = [end, *[token for pair in zip(tokens, [end] * len(tokens), strict=True) for token in pair]]
    assert streamed(byte_level(), mixed) == "page table"


def test_a_token_costs_as_little_after_thousands_of_tokens_as_at_the_beginning() -> None:
    tokenizer = byte_level()
    for tokens in (tokenizer(FAMILY)["input_ids"] * 200, SPLIT_BYTES[:1] * 2_000, SPLIT_BYTES * 30):
        decoded: list[int] = []

        def counting(part: list[int], decoded: list[int] = decoded) -> str:
            decoded.append(len(part))
            return whole(tokenizer, part)

        pieces = PieceDecoder(counting, special=())
        for token in tokens:
            pieces.push(token)
        assert max(decoded) < 64, "the window stays short"
        assert sum(decoded) / len(tokens) < 64


# --- stop strings -----------------------------------------------------------------------------------------------------


def cut_by(text: str, stops: list[str]) -> tuple[str, str | None]:
    """What reading ``text`` character by character gives: the text before the first stop that is complete."""
    for end in range(1, len(text) + 1):
        for stop in sorted(stops, key=len, reverse=True):
            if text[:end].endswith(stop):
                return text[: end - len(stop)], stop
    return text, None


class Spelled:
    """A tokenizer whose tokens are the words it was made with."""

    all_special_ids: list[int] = []

    def __init__(self, words: list[str]) -> None:
        self.words = words

    def decode(self, tokens: list[int], **_: object) -> str:
        return "".join(self.words[token] for token in tokens)


@given(
    st.lists(st.text("ab", min_size=1, max_size=5), max_size=12),
    st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=3),
)
@settings(max_examples=400, deadline=None)
def test_a_stop_string_cuts_the_text_wherever_the_tokens_cut_it(words: list[str], stops: list[str]) -> None:
    text = stream(Spelled(words), stops)
    seen = [""]
    for token in range(len(words)):
        text.push(token)
        seen.append(text.text)
    text.flush()
    seen.append(text.text)
    assert (text.text, text.stopped) == cut_by("".join(words), stops)
    assert all(later.startswith(earlier) for earlier, later in pairwise(seen)), "nothing given out is taken back"


def test_only_what_may_begin_a_stop_string_is_held_back() -> None:
    text = stream(Spelled(["so ", "wait\n", "\n", "\nUser", ": no"]), ["\n\nUser:"])
    assert [text.push(token) for token in range(4)] == ["so ", "wait", "", "\n"]
    assert text.push(4) == ""
    assert (text.text, text.stopped) == ("so wait\n", "\n\nUser:")
    assert text.push(0) == ""
    assert text.flush() == ""


def test_what_was_held_back_comes_out_when_the_answer_ends_without_the_stop_string() -> None:
    text = stream(Spelled(["abc", "sto"]), ["stop"])
    assert [text.push(0), text.push(1), text.flush()] == ["abc", "", "sto"]
    assert text.stopped is None


# --- prompts ----------------------------------------------------------------------------------------------------------


def test_a_plain_prompt_stays_plain_and_a_chat_prompt_gets_the_template() -> None:
    codec = TextCodec(byte_level())
    assert codec.decode(codec.encode("page table")) == "page table"
    asked = codec.encode("page", chat=True)
    assert byte_level().decode(asked) == "<user>page<model>"
    with pytest.raises(ValueError, match="no chat template"):
        TextCodec(byte_fallback()).encode("page", chat=True)


def test_a_conversation_gets_the_template_and_what_the_template_refuses_is_said() -> None:
    codec = TextCodec(byte_level())
    turns = [Turn("user", "page"), Turn("assistant", "table"), Turn("user", "more")]
    assert byte_level().decode(codec.encode_turns(turns)) == "<user>page<assistant>table<user>more<model>"
    strict = copy.deepcopy(byte_level())
    strict.chat_template = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(ValueError, match=r"^messages: .*roles must alternate"):
        TextCodec(strict).encode_turns(turns)
    with pytest.raises(ValueError, match=r"^messages: .*no chat template"):
        TextCodec(byte_fallback()).encode_turns(turns)


def test_a_lone_surrogate_in_a_prompt_is_read_as_a_replacement() -> None:
    codec = TextCodec(byte_level())
    assert codec.decode(codec.encode("a\ud800b")) == f"a{REPLACEMENT}b"
