from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kvtop.view.clean import clean_line, clean_text, fit, width

ANY_CHARACTER = st.text(st.characters(codec=None), max_size=200)  # lone surrogates included
HOSTILE = st.sampled_from(
    (
        *("\x1b[2J", "\x1b]52;c;aGk=\x07", "\x1b]2;title\x1b\\", "\x9b31m", "\x9d0;t\x9c"),
        *("\x00", "\r", "\n", "\t", "\ud800", "\u202e", "\u2066", "\u200b", "\u200d", "\ufeff"),
        *("\u00ad", "\ufe0f", "\U000e0041", "e\u0301\u0301\u0301\u0301\u0301"),
    )
)
UNTRUSTED = st.lists(st.one_of(ANY_CHARACTER, HOSTILE), max_size=8).map("".join)


def acts(text: str) -> list[str]:
    """The characters that a terminal would obey, or that have no width of their own and join or turn what is around."""
    return [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")]


@given(UNTRUSTED)
def test_nothing_that_a_terminal_obeys_survives(text: str) -> None:
    assert acts(clean_line(text)) == []
    assert acts(clean_text(text).replace("\n", "")) == []


@given(UNTRUSTED)
def test_a_line_stays_one_line_of_utf8_within_its_limit(text: str) -> None:
    shown = clean_line(text, 50)
    assert len(shown) <= 50
    assert len(shown.splitlines()) <= 1
    shown.encode("utf-8")


@given(UNTRUSTED)
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    once = clean_line(text, 300)
    assert clean_line(once, 300) == once


@given(UNTRUSTED, UNTRUSTED)
def test_width_adds_up_so_columns_line_up(left: str, right: str) -> None:
    one, other = clean_line(left, 1000), clean_line(right, 1000)
    assert width(one + other) == width(one) + width(other) == cell_len(one + other)


@given(UNTRUSTED, st.integers(0, 60))
def test_fit_takes_exactly_the_cells_it_was_given(text: str, cells: int) -> None:
    assert cell_len(fit(clean_line(text), cells)) == cells


@given(UNTRUSTED, st.integers(0, 200))
def test_a_control_sequence_in_two_pieces_is_as_harmless_as_in_one(text: str, cut: int) -> None:
    assert acts(clean_line(text[:cut]) + clean_line(text[cut:])) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "␛[2J"),
        ("\x1b]52;c;aGk=\x07", "␛]52;c;aGk=␇"),
        ("\x9b2J", "\ufffd2J"),
        ("a\x00b\x7fc", "a␀b␡c"),
        ("two\r\nlines\nhere", "two↵lines↵here"),
        ("back\rto", "back␍to"),
        ("abc\u202edef", "abcdef"),
        ("a\u200bb\u200dc\ufeffd", "abcd"),
        ("\ud800x", "\ufffdx"),
        ("漢字 日本", "漢字 日本"),
        ("👩‍👩‍👧", "👩👩👧"),
        ("🇩🇪", "DE"),
        ("👍🏽 ❤️", "👍 ❤"),
        ("Zaŀgo" + "\u0301" * 50, "Zaŀgo" + "\u0301" * 3),
        ("\u0301start", "start"),
        ("[@click=app.quit]x[/]", "[@click=app.quit]x[/]"),
    ],
)
def test_what_would_act_is_shown_as_a_sign_and_the_rest_is_kept(text: str, shown: str) -> None:
    assert clean_line(text) == shown


def test_lines_and_tabs_of_a_panel_are_kept_as_lines_and_spaces() -> None:
    assert clean_text("a\tb\r\nc\x1b\nd\u2028e") == "a    b\nc␛\nd↵e"


def test_a_megabyte_is_cut_to_the_limit_at_once() -> None:
    assert clean_line("x" * 1_000_000, 40) == "x" * 39 + "…"
    assert clean_text("y" * 1_000_000 + "z", 10) == "y" * 9 + "z"


def test_a_cut_wide_character_leaves_no_half_cell() -> None:
    assert fit("漢字漢字", 4) == "漢… "
    assert fit("漢字", 5) == "漢字 "
