"""Text from outside is shown and never obeyed: markup, escape sequences, bidi, wide and broken characters."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from kvtop.engine.control import Pause, Reply
from kvtop.engine.requests import Request
from kvtop.settings import EngineSettings
from tests.app.feed import SteppedSource
from tests.app.stage import on_stage, painted, settle, text

MARKUP = ("[/nope]", "[red]", "[@click=app.quit]x[/]", "[INFO]")
CONTROLS = "a\x1b[2Jb\x1b]2;title\x07c\x1b]52;c;AAAA\x1b\\d\x9b31me\x00f\rg\u202eh\u200bi\ud800j"


def with_name(name: str, prompt: str = "page table") -> SteppedSource:
    source = SteppedSource(EngineSettings(num_blocks=96))
    source.inject(Request(id=name, prompt=prompt, max_tokens=40, ignore_eos=True))
    source.run(5)
    return source


def harmless(shown: str) -> bool:
    """No character of it can act on a terminal."""
    return all(char.isprintable() or char == "\n" for char in shown)


@pytest.mark.parametrize("word", MARKUP)
async def test_markup_in_a_request_id_is_shown_literally_everywhere(word: str) -> None:
    source = with_name(f"id{word}")
    async with on_stage(source, (160, 44)) as (app, pilot):
        name = f"id{word}"
        assert text(app).count(name) >= 2  # sequences, events
        app.live.point_at(int(app.scene.view.sequences[1].table[0]))
        await pilot.pause()
        assert text(app).count(name) >= 3  # and the block panel
        await pilot.press("tab", "down", "w")
        await pilot.pause()
        assert name in text(app)
        await pilot.press("escape", "a")
        await pilot.pause()
        assert name in text(app)
        await pilot.press("escape")
        app.live.say(f"said {name}", "error")
        await pilot.pause(0.2)
        assert f"said {name}" in text(app)
        assert all("@click" not in style.meta for row in painted(app) for _, style in row)


async def test_markup_in_error_texts_is_shown_literally() -> None:
    source = with_name("one")
    async with on_stage(source, (160, 44)) as (app, pilot):
        source.say("failed", "cannot [red]load[/red] [/nope]", traceback="[@click=app.quit]x[/]")
        await settle(app, pilot)
        assert "cannot [red]load[/red] [/nope]" in text(app)
        await pilot.press("T")
        await pilot.pause()
        assert "[@click=app.quit]x[/]" in text(app)


async def test_markup_in_a_refusal_is_shown_literally() -> None:
    source = with_name("one")
    async with on_stage(source, (160, 44)) as (app, pilot):
        app.live.send(Pause())
        ticket = source.sent[-1].ticket
        source.messages = [Reply(ticket=ticket, error="no [/nope] such")]
        await settle(app, pilot)
        await pilot.pause(0.2)
        assert "no [/nope] such" in text(app)


async def test_nothing_that_acts_on_a_terminal_is_painted() -> None:
    source = with_name("req" + CONTROLS.replace("\ud800", ""), CONTROLS.replace("\ud800", ""))
    async with on_stage(source, (160, 44)) as (app, pilot):
        assert harmless(text(app))
        source.say("failed", CONTROLS, traceback=CONTROLS)
        await settle(app, pilot)
        assert harmless(text(app)) and "␛" in text(app)
        await pilot.press("T")
        await pilot.pause()
        assert harmless(text(app))
        app.live.say(CONTROLS, "error")
        await pilot.pause(0.2)
        assert harmless(text(app))


async def test_a_megabyte_of_text_costs_no_more_than_its_first_line() -> None:
    source = with_name("big", "page " * 200)
    async with on_stage(source) as (app, pilot):
        source.say("failed", "x" * 1_000_000, traceback="y" * 1_000_000)
        await settle(app, pilot)
        assert "xxxx" in text(app)
        await pilot.press("T")
        await pilot.pause()
        assert "yyyy" in text(app)


@pytest.mark.parametrize("name", ["请求十七号", "🙂🙃🙂 emoji", "e\u0301\u0301\u0301\u0301acute", "a" * 60])
async def test_columns_stay_aligned_beside_wide_and_combining_characters(name: str) -> None:
    source = with_name(name)
    source.inject(Request(id="plain", prompt="page table", max_tokens=40, ignore_eos=True))
    source.run(3)
    async with on_stage(source) as (app, _):
        for row in painted(app):
            assert len(row) == 120
        assert all(cell_len(line) == 120 for line in text(app).splitlines())
        region = app.live.sequences.region
        rows = painted(app)[region.y + 2 : region.y + 4]
        states = [["".join(char for char, _ in row)[x:].startswith("▶") for x in range(60, 120)] for row in rows]
        columns = [[i for i, (char, _) in enumerate(row) if char == "▶"] for row in rows]
        assert columns[0] == columns[1] and len(columns[0]) == 1, states


async def test_pasted_text_in_the_form_stays_text() -> None:
    async with on_stage(with_name("one")) as (app, pilot):
        await pilot.press("i", *"[/x]")
        await pilot.pause()
        assert "[/x]" in text(app)
