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
