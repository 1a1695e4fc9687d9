"""``s``: the text of the selected sequence is in sight at every size, or why there is none."""

from __future__ import annotations

import pytest

from kvtop.engine import control
from tests.app.feed import SteppedSource, story
from tests.app.stage import on_stage, settle, text


@pytest.fixture
def source() -> SteppedSource:
    told = story(num_blocks=96, requests=20)
    told.run(60)
    return told


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)])
@pytest.mark.parametrize("paused", [False, True])
async def test_s_shows_prompt_and_answer_at_every_size_paused_or_not(
    source: SteppedSource, size: tuple[int, int], paused: bool
) -> None:
    async with on_stage(source, size) as (app, pilot):
        if paused:
            await pilot.press("space")
        await pilot.press("tab", "down", "s")
        await settle(app, pilot)
        row = app.scene.view.sequences[app.scene.selected or 0]
        shown = text(app)
        assert f"{row.name} " in shown.split("text of")[1].splitlines()[0]
        assert "asked: in the block table of" in shown
        assert row.text.split()[-1] in shown.split("asked:")[1]


async def test_with_nothing_selected_the_text_panel_says_how_to_select(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("s")
        await settle(app, pilot)
        assert "Select a sequence to read along" in text(app)


async def test_a_sequence_that_is_over_keeps_its_last_words_in_the_text_panel(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("tab", "down", "s")
        row = app.scene.view.sequences[app.scene.selected or 0]
        app.live.send(control.Abort(request_id=row.request_id))
        source.run(1)
        await settle(app, pilot)
        shown = " ".join(text(app).replace("│", " ").split())
        assert f"{row.name} is over (abort) with {row.generated} tokens" in shown


async def test_tokens_whose_text_is_told_elsewhere_are_not_taken_for_an_answer_about_to_begin(
    source: SteppedSource,
) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("tab", "down", "s")
        row = app.scene.view.sequences[app.scene.selected or 0]
        row.raw_text = ""
        await settle(app, pilot)
        shown = " ".join(text(app).replace("│", " ").split())
        assert row.generated >= 8 and f"{row.generated} tokens came without their text" in shown


@pytest.mark.parametrize(("size", "places"), [((80, 24), 1), ((60, 20), 1), ((80, 44), 2), ((120, 36), 2)])
async def test_what_is_asked_for_last_is_seen_and_takes_the_place_of_the_others(
    source: SteppedSource, size: tuple[int, int], places: int
) -> None:
    async with on_stage(source, size) as (app, pilot):
        await pilot.press("space", "tab", "down", "s")
        await settle(app, pilot)
        assert app.live.in_sight("text")
        await pilot.press("b")
        await settle(app, pilot)
        assert app.live.in_sight("table") and app.live.in_sight("text") == (places > 1)
        if size != (60, 20):
            await pilot.press("b")
            if not app.live.in_sight("decision"):
                await pilot.press("d")
            assert app.live.in_sight("decision") and app.live.in_sight("text") == (places > 1)
            await pilot.press("d")
            await settle(app, pilot)
            assert not app.live.in_sight("decision") and app.live.in_sight("text")


async def test_where_there_is_no_room_for_the_decision_path_it_says_so(source: SteppedSource) -> None:
    async with on_stage(source, (60, 20)) as (app, pilot):
        await pilot.press("d")
        await pilot.pause(0.3)
        assert "there is no room for it" in " ".join(text(app).split())


async def test_s_on_another_tab_leads_to_the_text_of_what_is_chosen_there(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("2", "down", "s")
        await settle(app, pilot)
        assert app.scene.tab == "live" and "text of" in text(app)
