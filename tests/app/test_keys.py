"""Every key does what help says: pressed on the running app, judged by what the engine got and by the screen."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from textual.widgets import Input

from kvtop.app.actions import ACTIONS
from kvtop.app.app import AppSettings
from kvtop.app.grid.shape import Zoom
from kvtop.engine import control
from kvtop.engine.requests import Request
from kvtop.settings import EngineSettings
from kvtop.view.decision import decision_path, sequence_in_question
from kvtop.view.owner_slots import glyph
from kvtop.view.words import who
from tests.app.feed import SteppedSource, story
from tests.app.stage import on_stage, settle, shape_of, text


@pytest.fixture
def source() -> SteppedSource:
    told = story(num_blocks=96, requests=20)
    told.run(60)
    return told


async def test_space_pauses_the_engine_between_steps_and_lets_it_run_on(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("space")
        await settle(app, pilot)
        assert isinstance(source.sent[-1], control.Pause) and source.engine.paused
        assert "‖ paused" in text(app) and "run on" in text(app)
        await pilot.press("space")
        await settle(app, pilot)
        assert isinstance(source.sent[-1], control.Resume)
        assert "▶ running" in text(app)


async def test_full_stop_runs_one_step(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("space", "full_stop")
        assert source.sent[-1] == control.Step(ticket=source.sent[-1].ticket, steps=1)
        source.run(5)
        await settle(app, pilot)
        assert app.scene.view.step == 61


async def test_greater_than_runs_to_the_next_event_of_the_kind_that_e_chose(source: SteppedSource) -> None:
    async with on_stage(source) as (_app, pilot):
        await pilot.press("e", "down", "enter", "greater_than_sign")
        step = source.sent[-1]
        assert isinstance(step, control.Step) and step.until == "shortage"


async def test_the_decision_path_stands_in_the_corner_while_paused_and_d_takes_it_away(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        assert "pressure" in text(app)
        await pilot.press("space", "greater_than_sign")
        source.run(100)
        await settle(app, pilot)
        shown = text(app)
        assert "decision for" in shown and "the victim, by rule newest?" in shown and "pressure" not in shown
        await pilot.press("d")
        await settle(app, pilot)
        assert "pressure" in text(app)


async def test_the_decision_path_says_when_it_is_not_the_selected_ones(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("space", "greater_than_sign")
        source.run(100)
        await settle(app, pilot)
        view = app.scene.view
        told = sequence_in_question(view)
        other = next(s for s in view.sequences.values() if not decision_path(view, s.seq))
        app.live.select(other.seq)
        await settle(app, pilot)
        assert told is not None
        shown = " ".join(text(app).split())
        assert f"decision for {who(view, told)}" in shown
        assert f"nothing was decided about {who(view, other.seq)}" in shown
        app.live.select(told)
        await settle(app, pilot)
        assert "nothing was decided" not in text(app)


async def test_who_was_preempted_keeps_its_letter_in_the_list(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        for _ in range(400):
            source.run(1)
            while app.feed.poll():
                pass
            out = [s for s in app.scene.view.with_status("waiting") if s.preemptions]
            if out:
                break
        app.live.select(out[0].seq)
        await settle(app, pilot)
        view = app.scene.view
        letter = glyph(view.slots.slot_of(out[0].seq))
        assert letter.isalnum() and re.search(rf"{letter} {out[0].name} +✕", text(app))


async def test_i_sends_what_the_form_says_and_tells_before_what_it_will_need(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("i", "tab", *"40", "tab", "tab", *"3", "tab", "tab", *"20")
        await pilot.pause()
        assert "needs 9 blocks now, up to 12 later" in " ".join(text(app).split())
        await pilot.press("enter")
        await settle(app, pilot)
        inject = source.sent[-1]
        assert isinstance(inject, control.Inject)
        assert [len(request.prompt_token_ids or ()) for request in inject.requests] == [40] * 3
        assert {request.max_tokens for request in inject.requests} == {20}
        assert all(
            request.id in {s.request_id for s in app.scene.view.sequences.values()} for request in inject.requests
        )


async def test_the_form_asks_the_engine_for_a_prompts_length_and_keeps_its_values(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("i", *"page table block")
        await pilot.pause(0.3)
        app.feed.poll()
        await pilot.pause()
        assert any(isinstance(sent, control.Measure) for sent in source.sent)
        assert "needs 1 block now, up to 5 later" in " ".join(text(app).split())
        await pilot.press("escape", "i")
        assert "page table block" in text(app)


async def test_what_was_typed_last_is_sent_however_fast_enter_follows(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("i")
        app.screen.query_one("#count", Input).value = "4"
        app.screen.action_send()  # type: ignore[attr-defined]
        await settle(app, pilot)
        inject = source.sent[-1]
        assert isinstance(inject, control.Inject) and len(inject.requests) == 4
        assert app.live.form_values["count"] == "4"


async def test_a_broken_value_is_named_in_the_form_and_nothing_is_sent(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("i", "tab", "tab", "tab", *"0", "enter")
        await pilot.pause()
        assert "requests: is 0, expected 1 to 10,000" in text(app)
        assert not any(isinstance(sent, control.Inject) for sent in source.sent)


@pytest.mark.parametrize(("key", "command"), [("p", control.Preempt), ("a", control.Abort)])
async def test_what_destroys_asks_first_and_no_means_no(source: SteppedSource, key: str, command: type) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("tab", "down", key)
        await pilot.pause()
        assert "leave it" in text(app)
        await pilot.press("n")
        assert not any(isinstance(sent, command) for sent in source.sent)
        await pilot.press(key, "y")
        await settle(app, pilot)
        assert isinstance(source.sent[-1], command)


async def test_preempt_without_a_selection_says_how_to_select(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("p")
        await pilot.pause(0.3)
        assert "select a sequence" in text(app)
        assert source.sent == []


async def test_arrows_and_hjkl_move_the_cursor_and_the_block_panel_follows(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("right")
        assert app.scene.cursor == 0
        columns = shape_of(app).columns
        await pilot.press("l", "right", "j", "down", "up", "h")
        assert app.scene.cursor == 1 + columns
        assert f"block {1 + columns}" in text(app)
        await pilot.press("end")
        assert app.scene.cursor == 95
        await pilot.press("right", "down")
        assert app.scene.cursor == 95
        await pilot.press("home")
        assert app.scene.cursor == 0


async def test_enter_on_a_block_lights_its_owner_and_dims_the_rest(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        blocks = app.scene.view.blocks
        block = next(b for b in range(96) if blocks.ref_counts[b] == 1)
        app.live.point_at(block)
        await pilot.press("enter")
        assert app.scene.selected == blocks.holders[block]
        await pilot.press("escape")
        assert app.scene.selected is None and app.scene.cursor == block


async def test_the_mouse_points_at_blocks_and_rows_and_presses_the_footer(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        grid, shape = app.live.grid, shape_of(app)
        await pilot.click("#grid", offset=(1 + shape.gutter + 3 * shape.cell_width, 1))
        await pilot.pause()
        assert app.scene.cursor == 3
        await pilot.click("#sequences", offset=(10, 3))
        await pilot.pause()
        assert app.scene.selected == app.live.sequences.ordered()[1].seq
        await pilot.click("#footer", offset=(2, 0))
        await pilot.pause()
        assert isinstance(source.sent[-1], control.Pause)
        assert grid.block_under(0, 0) is None


async def test_plus_and_minus_change_the_zoom_and_0_fits_again(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        fits = shape_of(app).zoom
        seen = {fits}
        for key in ["minus"] * 6 + ["plus"] * 6:
            await pilot.press(key)
            seen.add(shape_of(app).zoom)
        assert seen == set(Zoom)
        await pilot.press("0")
        assert shape_of(app).zoom == fits


async def test_tab_goes_round_the_panels_that_take_keys(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        seen = []
        for _ in range(3):
            seen.append(app.live.focused_panel)
            await pilot.press("tab")
        assert seen == ["grid", "sequences", "log"] and app.live.focused_panel == "grid"
        await pilot.press("shift+tab")
        assert app.live.focused_panel == "log"


async def test_slash_filters_as_you_type_and_escape_takes_it_back(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        everyone = len(app.live.sequences.ordered())
        await pilot.press("slash", *"req-19", "enter")
        await settle(app, pilot)
        assert {row.request_id for row in app.live.sequences.ordered()} == {"req-19"}
        assert app.live.focused_panel == "sequences" and "/req-19" in text(app)
        await pilot.press("escape")
        assert len(app.live.sequences.ordered()) == everyone


async def test_o_sorts_by_the_next_column(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("o")
        held = [len(row.table) for row in app.live.sequences.ordered()]
        assert held == sorted(held, reverse=True) and "by blocks" in text(app)


async def test_the_selection_stays_with_its_sequence_when_the_order_changes(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("tab", "down", "down", "o", "o")
        row = app.scene.view.sequences[app.scene.selected or 0]
        line = next(line for line in text(app).splitlines() if "▌" in line)
        assert row.name in line


async def test_z_freezes_the_view_and_not_the_engine(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("z")
        source.run(30)
        await settle(app, pilot)
        assert app.scene.view.step == 60 and app.feed.live.step == 90
        assert "view frozen, engine at step 90" in text(app)
        await pilot.press("z")
        await settle(app, pilot)
        assert app.scene.view.step == 90 and "view frozen" not in text(app)


async def test_w_says_why_the_selected_sequence_waits(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        waiting = next(row for row in app.scene.view.with_status("waiting") if row.wait is not None)
        app.live.select(waiting.seq)
        await pilot.press("w")
        await pilot.pause()
        assert waiting.name in text(app) and "waits" in text(app)


async def test_question_mark_shows_every_action_and_the_panel_that_has_the_keys(source: SteppedSource) -> None:
    async with on_stage(source, (120, 160)) as (app, pilot):
        await pilot.press("question_mark")
        await pilot.pause()
        shown = " ".join(text(app).replace("│", " ").split())
        assert "The pool. One cell is one block" in shown
        for action in ACTIONS.values():
            assert action.help.split(".")[0].split(":")[0] in shown, action.name


async def test_the_palette_finds_an_action_by_its_name_and_runs_it(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("ctrl+p", *"clear cache")
        await pilot.pause(0.3)
        await pilot.press("enter")
        await pilot.pause(0.2)
        await pilot.press("y")
        await settle(app, pilot)
        assert isinstance(source.sent[-1], control.ClearCache)


async def test_t_changes_the_theme_at_once(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        names = list(app.live.themes)
        await pilot.press("t", "down", "enter")
        await pilot.pause()
        assert app.scene.palette.theme.name == names[1]
        assert app.live.grid.blank.bgcolor == app.scene.palette.named.text.bgcolor


async def test_y_copies_the_facts_of_what_is_selected(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("right", "y")
        assert app.clipboard.startswith("block 0: ")
        await pilot.press("tab", "down", "y")
        row = app.scene.view.sequences[app.scene.selected or 0]
        assert app.clipboard.startswith(f"{row.name}: ") and str(row.table) in app.clipboard


async def test_capital_s_saves_the_screen_as_svg(source: SteppedSource, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with on_stage(source) as (_app, pilot):
        await pilot.press("S")
        await pilot.pause()
    saved = list(tmp_path.glob("*.svg"))
    assert len(saved) == 1 and "kvtop" in saved[0].read_text()


async def test_a_dialog_is_in_the_picture_and_every_run_of_text_begins_where_it_is_seen(tmp_path: Path) -> None:
    told = story(num_blocks=96, requests=20)
    told.run(60)
    async with on_stage(told, settings=AppSettings(pictures_folder=tmp_path)) as (app, pilot):
        await pilot.press("i", "ctrl+s")
        await settle(app, pilot)
        (saved,) = tmp_path.iterdir()
        svg = saved.read_text()
        assert "inject&#160;requests" in svg
        runs = re.findall(r"<text [^>]*clip-path[^>]*>([^<]*)</text>", svg)
        assert len(runs) > 50
        assert not [run for run in runs if run.startswith("&#160;") or run.endswith("&#160;")]


async def test_the_log_scrolls_back_and_stays_at_its_place_while_events_arrive(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("tab", "tab", "pageup")
        before = [line[:60] for line in text(app).splitlines()[-9:-2]]
        source.run(3)
        await settle(app, pilot)
        assert [line[:60] for line in text(app).splitlines()[-9:-2]] == before
        assert "newer below" in text(app)
        await pilot.press("end")
        assert app.live.log_panel.back == 0


async def test_x_shows_routine_events_too(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        assert " take " not in text(app)
        await pilot.press("x")
        await settle(app, pilot)
        assert " take " in text(app) or " cache " in text(app) or " free " in text(app)


@pytest.mark.parametrize("key", ["q", "ctrl+c", "ctrl+q"])
async def test_q_leaves_at_once_with_exit_0(source: SteppedSource, key: str) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press(key)
        await pilot.pause()
        assert not app.is_running or app._exit
    assert app.return_code == 0


async def test_keys_can_be_mapped_anew(source: SteppedSource) -> None:
    async with on_stage(source, settings=AppSettings(keys={"pause": "f5"})) as (_app, pilot):
        await pilot.press("f5")
        assert isinstance(source.sent[-1], control.Pause)
        await pilot.press("space")
        assert len(source.sent) == 1


def test_no_two_actions_of_one_panel_share_a_key() -> None:
    for panel in {action.panel for action in ACTIONS.values()}:
        keys = [key for action in ACTIONS.values() if action.panel == panel for key in action.keys.split(",")]
        assert len(keys) == len(set(keys)), panel


async def test_a_refused_command_says_so(source: SteppedSource) -> None:
    async with on_stage(source, (160, 40)) as (app, pilot):
        app.live.send(control.Inject(requests=[Request(id="req-1", prompt="again")]))
        await settle(app, pilot)
        assert "req-1" in text(app).splitlines()[-5] or "already" in text(app)


async def test_f2_fills_the_form_from_a_preset(source: SteppedSource) -> None:
    async with on_stage(source, (120, 44)) as (app, pilot):
        await pilot.press("i", "f2", "down", "down", "enter", "enter")
        await settle(app, pilot)
        inject = source.sent[-1]
        assert isinstance(inject, control.Inject) and len(inject.requests) == 12
        prompts = [request.prompt_token_ids or [] for request in inject.requests]
        assert (
            len({tuple(prompt[:128]) for prompt in prompts}) == 1 and len({tuple(prompt) for prompt in prompts}) == 12
        )
        arrivals = [request.arrival_s for request in inject.requests]
        assert arrivals[0] == 0 and arrivals == sorted(arrivals) and 2 < arrivals[-1] < 15


async def test_more_can_be_sent_while_what_was_sent_before_still_arrives(source: SteppedSource) -> None:
    async with on_stage(source, (120, 44)) as (app, pilot):
        for _ in range(2):
            await pilot.press("i", "f2", "down", "down", "enter", "enter")
            await settle(app, pilot)
        first, second = (sent.requests for sent in source.sent if isinstance(sent, control.Inject))
        assert not {request.id for request in first} & {request.id for request in second}
        assert "in use" not in text(app)


async def test_a_workload_file_is_sent_from_the_form_after_its_need_was_told(source: SteppedSource, tmp_path) -> None:
    file = tmp_path / "load.json"
    asked = [{"id": f"from-file-{i}", "prompt": "page table " * (10 + i), "max_tokens": 20} for i in range(3)]
    file.write_text(json.dumps({"requests": asked}))
    async with on_stage(source, (120, 44)) as (app, pilot):
        await pilot.press("i", "up")
        app.screen.query_one("#file", Input).value = str(file)
        await pilot.pause(0.3)
        app.feed.poll()
        await pilot.pause()
        shown = " ".join(text(app).replace("│", " ").split())
        assert "3 requests from the file: needs 6 blocks now, up to 9 later" in shown
        await pilot.press("enter")
        await settle(app, pilot)
        inject = source.sent[-1]
        assert isinstance(inject, control.Inject) and len(inject.requests) == 3
        assert {"from-file-0", "from-file-2"} <= {row.request_id for row in app.scene.view.sequences.values()}


async def test_a_workload_file_that_is_none_is_refused_in_the_form(source: SteppedSource, tmp_path) -> None:
    async with on_stage(source, (120, 44)) as (app, pilot):
        await pilot.press("i", "up")
        app.screen.query_one("#file", Input).value = str(tmp_path / "nothing.json")
        await pilot.press("enter")
        await pilot.pause()
        assert "cannot be read: No such file" in " ".join(text(app).replace("│", " ").split())
        assert not any(isinstance(sent, control.Inject) for sent in source.sent)


async def test_capital_o_sends_the_settings_that_were_changed(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("O", *"0.25", "tab", *"7")
        await pilot.pause()
        assert "watermark: 0.0 → 0.25; max_num_seqs: 12 → 7" in text(app)
        await pilot.press("enter")
        await settle(app, pilot)
        changed = [(sent.name, sent.value) for sent in source.sent if isinstance(sent, control.Set)]
        assert changed == [("watermark", "0.25"), ("max_num_seqs", "7")]
        assert app.scene.view.settings["watermark"] == "0.25"


async def test_a_setting_that_cannot_be_is_refused_in_words(source: SteppedSource) -> None:
    async with on_stage(source, (160, 44)) as (app, pilot):
        await pilot.press("O", *"lots", "enter")
        await settle(app, pilot)
        await pilot.pause(0.3)
        assert "watermark" in text(app) and "share" in text(app)


async def test_brackets_change_the_priority_of_the_selected_request(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        await pilot.press("tab", "down", "left_square_bracket")
        await settle(app, pilot)
        row = app.scene.view.sequences[app.scene.selected or 0]
        assert source.sent[-1] == control.SetPriority(ticket=1, request_id=row.request_id, priority=-1)
        assert row.priority == -1


async def test_with_swap_space_a_preemption_can_swap_out() -> None:
    settings = EngineSettings(num_blocks=96, max_num_seqs=12, swap_memory=64 << 21)
    told = story(settings=settings, requests=10)
    told.run(30)
    async with on_stage(told) as (app, pilot):
        await pilot.press("tab", "down", "p")
        await pilot.pause()
        assert "swap out" in text(app)
        await pilot.press("s")
        await settle(app, pilot)
        assert app.scene.view.sequences[app.scene.selected or 0].status == "swapped"
        assert "1 swapped" in text(app)


@pytest.mark.parametrize(("prefix_cache", "words"), [(True, "computes up to"), (False, "computes")])
async def test_a_preemption_is_offered_at_the_most_it_can_cost(prefix_cache: bool, words: str) -> None:
    told = story(settings=EngineSettings(num_blocks=96, max_num_seqs=12, prefix_cache=prefix_cache), requests=2)
    told.run(10)
    async with on_stage(told) as (app, pilot):
        await pilot.press("tab", "down", "p")
        await pilot.pause()
        said = re.search(r"It gives up \d+ blocks? and (computes(?: up to)?) \d+ tokens", text(app))
        assert said is not None and said[1] == words


async def test_single_steps_do_not_crowd_the_log_unless_all_events_are_shown(source: SteppedSource) -> None:
    async with on_stage(source, (150, 60)) as (app, pilot):
        await pilot.press("space", "full_stop")
        source.run()
        await settle(app, pilot)
        assert "runs 1 step" not in text(app) and "operator  pause" in text(app)
        await pilot.press("tab", "tab", "x")
        await settle(app, pilot)
        assert "runs 1 step" in text(app)
