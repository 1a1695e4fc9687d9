"""The policy lab on the screen: its keys, its clock, what it shows at every size; it leaves the engine alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from textual.pilot import Pilot

from kvtop.app.app import AppSettings, KvtopApp
from kvtop.app.lab.desk import AS_FAST_AS_IT_GOES, SPEEDS, LabDesk
from kvtop.app.lab.ink import NO_CELL, TOP, cell_codes
from kvtop.app.lab.screen import LabApp
from kvtop.app.shell import ShellSettings
from kvtop.lab.combinations import combinations
from kvtop.lab.pool_picture import FREE, INTERNAL, KINDS, LIVE, RESERVED
from kvtop.lab.presets import TWELVE_SLOTS, Preset, experiments_preset
from kvtop.lab.runs import run_one
from tests.app.feed import SteppedSource, story
from tests.app.stage import make_app, on_stage, painted, settle, text

Compare = Callable[..., bool]
SIZES = pytest.mark.parametrize("size", [(200, 50), (120, 36), (80, 24), (60, 20)])
SMALL = combinations({"requests": [60], "pool_tokens": [20_000], "max_tokens": [400], "block_size": [256, 16]})


@pytest.fixture
def source() -> SteppedSource:
    told = story(num_blocks=64, requests=20)
    told.run(60)
    return told


def small_preset() -> Preset:
    return experiments_preset("a small one", SMALL)


class Clock:
    """Passes by ``step_s`` whenever it is read."""

    def __init__(self, step_s: float = 0.0) -> None:
        self.now_s = 0.0
        self.step_s = step_s

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def desk_of(*presets: Preset, clock: Clock | None = None) -> LabDesk:
    desk = LabDesk(presets, clock or Clock())
    desk.open()
    return desk


def step_of(app: KvtopApp) -> int:
    assert app.scene.lab.shown is not None
    return app.scene.lab.shown.step


# --- keys -------------------------------------------------------------------------------------------------------------


async def test_four_opens_the_twelve_slots_and_the_keys_of_stepping_move_the_lab_alone(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        sent = len(source.sent)
        await pilot.press("4")
        await settle(app, pilot)
        shown = text(app)
        assert "twelve slots" in shown and "1 slot free" in shown and "6 slots free" in shown
        assert "‖ paused" in shown and step_of(app) == 1
        await pilot.press("full_stop", "full_stop")
        await settle(app, pilot)
        assert step_of(app) == 3 and "waiting  C   D" in text(app)
        await pilot.press("comma")
        assert step_of(app) == 2
        await pilot.press("end")
        await settle(app, pilot)
        assert "■ all done" in text(app) and "in 10 steps" in text(app) and "in 7 steps" in text(app)
        await pilot.press("comma")
        assert step_of(app) == 10 and not app.scene.lab.shown.ended  # type: ignore[union-attr]
        await pilot.press("home")
        assert step_of(app) == 1
        assert len(source.sent) == sent and not app.feed.in_past
        await pilot.press("escape")
        assert app.scene.tab == "live"
        await pilot.press("space")
        assert len(source.sent) == sent + 1


async def test_space_lets_the_lab_run_while_it_is_in_sight(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        clock = Clock()
        app.scene.lab._clock = clock
        await pilot.press("4", "space")
        clock.now_s += 0.3
        app.live.tick(news=False)
        assert step_of(app) == 1
        for _ in range(4):
            clock.now_s += 0.4
            app.live.tick(news=False)
        await settle(app, pilot)
        assert step_of(app) == 2 and "▶ 1/s" in text(app) and "space pause" in text(app)
        await pilot.press("up", "up", "up")
        clock.now_s += 0.3
        app.live.tick(news=False)
        assert step_of(app) == 5
        await pilot.press("1")
        clock.now_s += 60
        app.live.tick(news=False)
        assert step_of(app) == 5
        await pilot.press("4", "space")
        await settle(app, pilot)
        assert "‖ paused" in text(app)


async def test_c_chooses_what_lies_side_by_side_and_every_figure_is_on_the_screen(source: SteppedSource) -> None:
    async with on_stage(source, (200, 50)) as (app, pilot):
        app.scene.lab = desk_of(TWELVE_SLOTS, small_preset())
        await pilot.press("4", "c", "down")
        await settle(app, pilot)
        assert "20,000 slots · 60 requests wait at the start" in text(app)
        await pilot.press("enter", "end")
        for _ in range(100):
            app.live.tick(news=False)
        await settle(app, pilot)
        shown = text(app)
        assert "a small one" in shown and "■ all done" in shown
        for experiment in SMALL:
            row = run_one(experiment, False, None).figures
            assert f"mean {row['mean_running']:,.1f}" in shown and f"{row['kv_utilization']:.1%} tokens" in shown
            assert f"{row['preemptions']:,} preempted · 60 of 60 done in {row['steps']:,} steps" in shown


async def test_from_preemption_to_preemption_and_back(source: SteppedSource) -> None:
    async with on_stage(source) as (app, pilot):
        app.scene.lab = desk_of(small_preset())
        await pilot.press("4", "greater_than_sign")
        first = step_of(app)
        await pilot.press("greater_than_sign")
        second = step_of(app)
        assert app.scene.lab.shown is not None
        assert app.scene.lab.shown.preempted_at == [first, second] and 1 < first < second
        await pilot.press("less_than_sign")
        assert step_of(app) == first
        await pilot.press("less_than_sign")
        assert step_of(app) == 1


async def test_help_and_footer_speak_of_the_lab(source: SteppedSource) -> None:
    async with on_stage(source, (160, 44)) as (app, pilot):
        await pilot.press("4")
        await settle(app, pilot)
        footer = text(app).splitlines()[-1]
        assert "space run" in footer and "c compare" in footer and "inject" not in footer
        await pilot.press("question_mark")
        await settle(app, pilot)
        assert "The same requests through several policies" in text(app) and "More steps a second." in text(app)


async def test_what_ran_here_is_run_again_under_other_settings(source: SteppedSource) -> None:
    source.run(200)
    async with on_stage(source, (160, 44), AppSettings(history=source.history)) as (app, pilot):
        await pilot.press("4", "c", "end", "enter")
        await app.workers.wait_for_complete()
        await pilot.press("end")
        while app.scene.lab.winding:
            app.live.tick(news=False)
        app.clear_notifications()
        await settle(app, pilot)
        shown = text(app)
        assert "this engine's traffic so far · 1,024 slots · 20 requests, when they came" in shown
        for title in ("simulated as it was", "watermark 5%", "32-token blocks", "reserve prompt + max_tokens"):
            assert title in shown
        assert shown.count("20 of 20 done in") == 4 and "-- cached" in shown
        await pilot.press("c")
        await settle(app, pilot)
        assert len(app.scene.lab.presets) == 4


async def test_before_anything_ran_there_is_nothing_to_try_otherwise() -> None:
    source = SteppedSource(story().settings)
    async with on_stage(source, settings=AppSettings(history=source.history)) as (app, pilot):
        await pilot.press("4", "c", "end", "enter")
        await app.workers.wait_for_complete()
        await settle(app, pilot)
        await pilot.pause(0.3)
        assert "no request is recorded" in text(app) and app.scene.lab.preset.title == "twelve slots"


# --- the clock --------------------------------------------------------------------------------------------------------


def test_a_frame_spends_no_more_than_its_share_on_steps_and_does_not_make_up_for_lost_ones() -> None:
    desk = desk_of(small_preset(), clock=(clock := Clock()))
    desk.steps_per_second = AS_FAST_AS_IT_GOES
    desk.toggle()
    clock.step_s = 0.01
    before = desk.shown.step  # type: ignore[union-attr]
    desk.tick()
    assert 1 <= desk.shown.step - before <= 4  # type: ignore[union-attr]
    clock.step_s = 0.0
    desk.steps_per_second = 10
    desk.tick()
    before = desk.shown.step  # type: ignore[union-attr]
    clock.now_s += 3_600
    desk.tick()
    assert desk.shown.step - before <= 6  # type: ignore[union-attr]


def test_speed_stays_within_its_table_and_running_ends_with_the_last_lane() -> None:
    desk = desk_of(small_preset())
    desk.change_speed(-100)
    assert desk.steps_per_second == SPEEDS[0]
    desk.change_speed(100)
    assert desk.steps_per_second == SPEEDS[-1]
    desk.toggle()
    for _ in range(3):
        desk._clock.now_s += 0.1  # type: ignore[attr-defined]
        desk.tick()
    assert desk.shown is not None and desk.shown.ended and not desk.moves
    desk.toggle()
    assert desk.running and desk.shown.step == 1


async def test_a_preemption_asked_for_that_does_not_come_is_told_at_the_end() -> None:
    app = LabApp(desk := LabDesk([TWELVE_SLOTS], Clock()), ShellSettings())
    app._tick_s = 3600.0
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("full_stop", "greater_than_sign")
        await pilot.pause()
        assert desk.shown is not None and desk.shown.ended
        assert "■ all done, nobody preempted after step 2" in text(app).splitlines()[0]
        await pilot.press("home", "end")
        await pilot.pause()
        assert "nobody preempted" not in text(app)


# --- the picture ------------------------------------------------------------------------------------------------------


def test_a_cell_s_code_is_the_share_of_its_tokens_and_the_kind_of_most_of_the_rest() -> None:
    rows = {
        (16, 0, 0, 0, 0, 0): TOP * KINDS + LIVE,
        (8, 3, 5, 0, 0, 0): 4 * KINDS + INTERNAL,
        (0, 9, 7, 0, 0, 0): RESERVED,
        (0, 0, 0, 0, 0, 16): FREE,
        (255, 0, 1, 0, 0, 0): TOP * KINDS + LIVE,
        (0, 0, 0, 0, 0, 0): NO_CELL,
    }
    assert cell_codes(np.array(list(rows))).tolist() == list(rows.values())


async def test_without_colours_hatching_tells_the_kinds_apart(
    source: SteppedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with on_stage(source, (200, 50), AppSettings()) as (app, pilot):
        app.scene.lab = desk_of(small_preset())
        await pilot.press("4", *["full_stop"] * 9)
        await settle(app, pilot)
        rows = painted(app)
        inside = [cell for row in rows[5:20] for cell in row[1:98]]
        assert {"░", "▒", "·"} <= {char for char, _ in inside}
        assert any(style.reverse for char, style in inside if char == " ")
        assert all(style.color is None and style.bgcolor is None for _, style in inside)


@SIZES
@pytest.mark.parametrize(
    "keys", [("4", "full_stop"), ("4", "c", "down", "enter", *["full_stop"] * 40)], ids=["twelve", "small"]
)
def test_pictures(keys: tuple[str, ...], size: tuple[int, int], source: SteppedSource, snap_compare: Compare) -> None:
    app = make_app(source)

    async def prepare(pilot: Pilot[None]) -> None:
        app.scene.lab.open()
        app.scene.lab.presets[1] = small_preset()
        await pilot.press(*keys)
        await settle(app, pilot)
        shown = text(app)
        assert f"step {1 + keys.count('full_stop')}" in shown
        for word in (
            "running",
            "mean",
            "tokens",
            "done",
            "space run",
            "q quit",
            "policy lab" if size[1] >= 24 else "lab",
        ):
            assert word in shown, word
        if "c" in keys:
            assert len(re.findall(r"of 60 done", shown)) == 4 and "a small one" in shown
            assert "reserve max_model_len" in shown and "paged, 16-token blocks" in shown
        else:
            assert "contiguous" in shown and "paged" in shown and shown.count("A") >= 4 + 4

    assert snap_compare(app, terminal_size=size, run_before=prepare)


@pytest.mark.parametrize("size", [(200, 50), (80, 24)])
async def test_the_shares_called_now_are_those_of_the_picture_and_the_means_are_called_means(
    size: tuple[int, int],
) -> None:
    app = LabApp(desk := LabDesk([TWELVE_SLOTS], Clock()), ShellSettings())
    app._tick_s = 3600.0
    async with app.run_test(size=size) as pilot:
        await pilot.press(*["full_stop"] * 3)
        await pilot.pause()
        shown = text(app)
        assert desk.shown is not None
        for lane in desk.shown.lanes:
            slots, sums = lane.picture().totals(), lane.figures().sums
            held = slots[LIVE] + slots[RESERVED] + slots[INTERNAL]
            assert slots[LIVE] * sums.held != sums.live * held
            assert re.search(rf"now  . {slots[LIVE] / held:.1%} tokens", shown)
            assert re.search(rf"mean . {sums.live / sums.held:.1%} tokens", shown)


# --- by itself --------------------------------------------------------------------------------------------------------


async def test_without_an_engine_the_lab_is_the_whole_screen_and_has_the_same_keys(
    tmp_path: Path,
) -> None:
    desk = LabDesk([TWELVE_SLOTS, small_preset()], clock := Clock())
    settings = ShellSettings(pictures_folder=tmp_path, keys={"step": "f5"}, warnings=("something was odd",))
    app = LabApp(desk, settings)
    app._tick_s = 3600.0
    async with app.run_test(size=(120, 36), notifications=True) as pilot:
        await pilot.pause(0.3)
        shown = text(app)
        assert shown.startswith(" lab  twelve slots") and "POOL" not in shown and "something was odd" in shown
        assert "f5 step" in shown.splitlines()[-1] and "i inject" not in shown
        await pilot.press("f5", "f5", "comma")
        assert desk.shown is not None and desk.shown.step == 2
        await pilot.press("c", "down", "enter", "greater_than_sign", "space")
        before = desk.shown.step
        assert desk.shown.preempted_at == [before] and desk.running
        clock.now_s += 0.2
        app.lab_screen.tick()
        assert desk.shown.step > before and "a small one" in text(app)
        await pilot.press("t", "down", "enter", "S", "question_mark")
        assert app.palette.theme.name != "dark" and list(tmp_path.glob("*.svg"))
        await pilot.pause()
        assert "The same requests through several policies" in text(app)
        await pilot.press("escape", "q")
    assert app.return_code == 0


@pytest.mark.parametrize("size", [(1, 1), (12, 6), (30, 8), (40, 12), (90, 14), (300, 100)])
async def test_any_size_leaves_a_whole_screen(size: tuple[int, int]) -> None:
    app = LabApp(LabDesk([TWELVE_SLOTS, small_preset()], Clock()), ShellSettings())
    app._tick_s = 3600.0
    async with app.run_test(size=size) as pilot:
        for keys in ((), ("c", "down", "enter"), ("full_stop",) * 20):
            await pilot.press(*keys)
            await pilot.pause()
            lines = text(app).splitlines()
            assert len(lines) == size[1] and all(len(line) == size[0] for line in lines)
            assert size[0] < 30 or "step" in lines[0]
