"""A paste is text and nothing else, whatever is in it and however it arrives."""

from __future__ import annotations

import pytest
from textual import events

from kvtop.app.paste import PasteParser, Pastes, as_line, as_text
from tests.app.feed import story
from tests.app.stage import on_stage, settle

SENT = "x\x1b[200~one\x1btwo\rq\x1b[2Jthree\x1b[201~\x1b[Ay"


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 7, 100])
def test_a_paste_with_escapes_stays_one_text_however_it_is_cut(piece: int) -> None:
    pastes = Pastes()
    given = "".join(pastes.whole(SENT[at : at + piece]) for at in range(0, len(SENT), piece))
    assert given == "x\x1b[200~one␛two\rq␛[2Jthree\x1b[201~\x1b[Ay"


def test_the_parser_makes_one_paste_of_it_and_no_keys() -> None:
    parser = PasteParser()
    told = [event for event in parser.feed(SENT) if isinstance(event, events.Key | events.Paste)]
    assert [event.key if isinstance(event, events.Key) else event.text for event in told] == [
        "x", "one␛two\rq␛[2Jthree", "up", "y",
    ]  # fmt: skip


def test_line_breaks_of_every_kind_are_shown_and_come_back() -> None:
    assert as_line("a\r\nb\rc\n\td") == "a↵b↵c↵ d"
    assert as_text("a↵b") == "a\nb"


async def test_a_paste_of_several_lines_stays_in_the_field_and_sends_nothing() -> None:
    source = story(96)
    async with on_stage(source, (120, 44)) as (app, pilot):
        await pilot.press("i")
        app.post_message(events.Paste("page table\rq\x1b[2J"))
        await pilot.pause(0.3)
        await settle(app, pilot)
        assert app.screen is not app.live
        assert app.live.form_values["prompt"] == "page table↵q␛[2J"
        assert not any(type(sent).__name__ == "Inject" for sent in source.sent)
