"""Each tab shows what it is about, takes keys and the mouse, and leads back to the pool."""

from __future__ import annotations

import pytest

from kvtop.app.app import AppSettings
from kvtop.view.prefix_tree import prefix_tree
from kvtop.view.request_rows import request_rows
from tests.app.feed import SteppedSource, story
from tests.app.stage import on_stage, settle, text


@pytest.fixture
def source() -> SteppedSource:
    told = story(num_blocks=64, requests=20)
    told.run(160)
    return told


async def test_numbers_open_tabs_and_escape_leads_back_to_the_pool(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        for key, word, panel in (
            ("2", "life", "requests"),
            ("3", "held by", "prefix"),
            ("5", "nothing to find fault with", "findings"),
        ):
            await pilot.press(key)
            await settle(app, pilot)
            assert word in text(app) and app.live.focused_panel == panel
            assert "pressure" not in text(app)
            await pilot.press("escape")
            await settle(app, pilot)
            assert "pressure" in text(app) and app.live.focused_panel == "grid"


async def test_the_mouse_opens_a_tab(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        line = text(app).splitlines()[2]
        await pilot.click("#tabs", offset=(line.index("prefix tree"), 0))
        await settle(app, pilot)
        assert app.scene.tab == "prefix" and "held by" in text(app)


async def test_a_low_screen_has_no_line_for_tabs_but_the_keys_work(source: SteppedSource) -> None:
    async with on_stage(source, (80, 20)) as (app, pilot):
        assert "1 live" not in text(app)
        await pilot.press("2")
        await settle(app, pilot)
        assert "going on" in text(app)


async def test_the_requests_are_all_there_and_the_life_is_the_chosen_ones(source: SteppedSource) -> None:
    async with on_stage(source, (120, 50)) as (app, pilot):
        await pilot.press("2")
        rows = request_rows(app.scene.view, app.scene.now_s)
        await settle(app, pilot)
        assert all(row.name in text(app) for row in rows)
        for row in (rows[0], rows[1]):
            await pilot.press("down")
            await settle(app, pilot)
            shown = text(app)
            assert f"life of {row.name} " in shown
            assert f"blocks it held, {row.life.most_blocks} at most" in shown
            assert app.scene.selected == row.seq
        await pilot.press("pagedown", "pagedown", "pagedown")
        assert app.scene.request == rows[-1].name and app.scene.selected is None
        await pilot.press("up", "pageup")
        assert app.scene.request == rows[-12].name


async def test_requests_that_are_out_of_sight_are_counted(source: SteppedSource) -> None:
    async with on_stage(source, (120, 24)) as (app, pilot):
        await pilot.press("2")
        await settle(app, pilot)
        rows, seen = app.live.requests.rows(), app.live.requests.size.height - 3
        assert 0 < seen < len(rows)
        assert f" 1–{seen} of {len(rows)} " in text(app)
        await pilot.press("end", *["pagedown"] * 5)
        await settle(app, pilot)
        assert f" {len(rows) - seen + 1}–{len(rows)} of {len(rows)} " in text(app)
        assert rows[-1].name in text(app)
    async with on_stage(source, (120, 60)) as (app, pilot):
        await pilot.press("2")
        await settle(app, pilot)
        assert " of 20 " not in text(app)


async def test_a_life_tells_every_stretch_with_its_steps(source: SteppedSource) -> None:
    async with on_stage(source, (160, 60)) as (app, pilot):
        await pilot.press("2")
        frozen = next(row for row in request_rows(app.scene.view, app.scene.now_s) if row.preemptions and row.seq)
        app.live.select(frozen.seq)
        await settle(app, pilot)
        shown = " ".join(text(app).replace("│", " ").split())
        for span in frozen.spans:
            assert f"{span.phase} from step {span.since_step} {span.steps} step" in shown
        assert "frozen " in shown and "✕" in shown


async def test_a_request_that_ends_while_it_is_chosen_stays_chosen(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("2", "down", "down")
        name = app.scene.request
        source.run(900)
        await settle(app, pilot)
        assert not app.scene.view.sequences
        assert f"life of {name} " in text(app) and "▌" in text(app)


async def test_enter_on_a_request_shows_its_blocks_in_the_grid(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("2", "down", "enter")
        await settle(app, pilot)
        row = app.scene.view.sequences[app.scene.selected or 0]
        assert app.scene.tab == "live" and app.scene.cursor == row.table[0]


async def test_the_tree_on_the_screen_is_that_of_the_view_and_says_what_sharing_saves(source: SteppedSource) -> None:
    async with on_stage(source, (160, 60)) as (app, pilot):
        await pilot.press("3")
        await settle(app, pilot)
        tree, shown = prefix_tree(app.scene.view), text(app)
        tables = [sequence.table for sequence in app.scene.view.sequences.values()]
        saved = sum(map(len, tables)) - len({block for table in tables for block in table})
        assert saved > 0 and f"sharing saves {saved} blocks" in shown
        lines = [line for line in shown.splitlines() if line.startswith("│ ")]
        for (branch, lead), line in zip(tree.rows(), lines[1:], strict=False):
            assert line[2:].startswith(f"{lead}{len(branch.blocks)} ")
            assert not branch.seqs or app.scene.view.name_of(branch.seqs[0]) in line
        assert "held by" in lines[0]


async def test_a_branch_is_chosen_by_its_block_and_enter_shows_it_in_the_grid(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("3", "down", "down")
        second = prefix_tree(app.scene.view).rows()[1][0]
        assert app.scene.cursor == second.blocks[0]
        await settle(app, pilot)
        assert f"block {second.blocks[0]} " in text(app)
        await pilot.press("enter")
        await settle(app, pilot)
        assert app.scene.tab == "live" and app.live.focused_panel == "grid"


async def test_findings_show_evidence_and_advice_and_their_number_stands_in_the_tab(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        for _ in range(40):
            source.run(20)
            app.feed.poll()
            app.live.tick(True)
            if app.feed.findings.standing:
                break
        (finding, *_), count = app.feed.findings.standing, len(app.feed.findings.standing)
        await pilot.press("5")
        await settle(app, pilot)
        shown = " ".join(text(app).replace("│", " ").split())
        assert f"findings {count}" in text(app).splitlines()[2]
        assert finding.case.headline in shown and finding.case.evidence in shown
        assert f"→ {finding.case.advice}" in shown


async def test_the_filter_works_on_requests_too(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("2", "slash", *"req-19", "enter")
        await settle(app, pilot)
        assert [row.request_id for row in app.live.requests.rows()] == ["req-19"]
        assert app.live.focused_panel == "requests"


async def test_stepping_back_shows_the_lists_as_they_were(source: SteppedSource) -> None:
    async with on_stage(source, settings=AppSettings(history=source.history)) as (app, pilot):
        await pilot.press("space", "2", "down", "down")
        await settle(app, pilot)
        seen: dict[int, list[str]] = {}
        for _ in range(4):
            seen[app.scene.view.step] = text(app).splitlines()[3:-1]
            await pilot.press("full_stop")
            source.run(1)
            await settle(app, pilot)
        while (step := app.scene.view.step) > min(seen):
            await pilot.press("comma")
            await settle(app, pilot)
            assert app.feed.in_past and text(app).splitlines()[3:-1] == seen[step - 1]
