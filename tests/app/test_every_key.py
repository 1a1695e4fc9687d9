"""Each action, by each of its keys: pressed on the running app, it does what it is for. Not one is left out.

The lab's and the lessons' own keys are pressed where those are tested.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from kvtop.app.actions import ACTIONS
from kvtop.app.app import AppSettings, KvtopApp
from kvtop.app.recording import RecordingSwitch
from kvtop.engine import control
from kvtop.view.prefix_tree import prefix_tree
from tests.app.feed import SteppedSource, story
from tests.app.stage import on_stage, settle, shape_of, text

OF_OTHERS = {name for name, action in ACTIONS.items() if action.panel in ("lab", "lesson") or action.group == "lesson"}
OF_OTHERS |= {"suspend"}  # needs a terminal: test_terminal.py
Holds = Callable[[KvtopApp, SteppedSource], object]


def sent(kind: type, **fields: object) -> Holds:
    def holds(app: KvtopApp, source: SteppedSource) -> bool:
        last = source.sent[-1]
        return isinstance(last, kind) and all(getattr(last, name) == value for name, value in fields.items())

    return holds


def opened(screen: str, words: str) -> Holds:
    return lambda app, source: type(app.screen).__name__ == screen and words in text(app)


def chosen_place(app: KvtopApp) -> int:
    return [row.seq for row in app.live.sequences.ordered()].index(app.scene.selected or 0)


def request_place(app: KvtopApp) -> int:
    return [row.name for row in app.live.requests.rows()].index(app.scene.request)


def branch_place(app: KvtopApp) -> int:
    firsts = [branch.blocks[0] for branch, _ in prefix_tree(app.scene.view).rows()]
    return firsts.index(app.scene.cursor if app.scene.cursor is not None else -1)


def branches(app: KvtopApp) -> int:
    """No more than the twelve that the keys before go over."""
    return min(12, len(prefix_tree(app.scene.view).rows()))


def tab(name: str, panel: str) -> Holds:
    return lambda app, source: (app.scene.tab, app.live.focused_panel) == (name, panel)


IN_TABLE = ("tab", "down")
IN_LOG = ("tab", "tab")
EFFECTS: dict[str, tuple[tuple[str, ...], Holds]] = {
    "pause": ((), sent(control.Pause)),
    "step": ((), sent(control.Step, steps=1, until="")),
    "step_until": ((), sent(control.Step, until="preempted")),
    "choose_event": ((), opened("Choose", "run to the next …")),
    "step_back": (("space",), lambda app, source: app.feed.in_past and app.scene.view.step < app.feed.live.step),
    "event_back": (("space",), lambda app, source: any(
        type(event).__name__ == "Preempted" for event in app.scene.view.last_events)),
    "go_to_step": ((), opened("GoTo", "can be shown")),
    "breakpoint": ((), opened("Choose", "pause when …")),
    "predict": ((), lambda app, source: app.scene.predict),
    "uncover": (("P", "space", "z"), lambda app, source: not app.feed.frozen),
    "inject": ((), opened("InjectForm", "inject requests")),
    "preempt": (IN_TABLE, opened("Ask", "Preempt ")),
    "abort": (IN_TABLE, opened("Ask", "Abort ")),
    "more_urgent": (IN_TABLE, sent(control.SetPriority, priority=-1)),
    "less_urgent": (IN_TABLE, sent(control.SetPriority, priority=0)),  # up from what the key before made
    "settings": ((), opened("SettingsForm", "settings of the running engine")),
    "clear_cache": ((), opened("Ask", "Clear the prefix cache?")),
    "record": ((), lambda app, source: app.scene.recording is not None and app.scene.recording.size_bytes),
    "next_sequence": (IN_TABLE, lambda app, source: chosen_place(app) == 1),
    "previous_sequence": ((*IN_TABLE, "down", "down"), lambda app, source: chosen_place(app) == 1),
    "ten_down": (IN_TABLE, lambda app, source: chosen_place(app) == 10),
    "ten_up": ((*IN_TABLE, "pagedown", "down"), lambda app, source: chosen_place(app) == 1),
    "to_its_blocks": (IN_TABLE, lambda app, source: app.live.focused_panel == "grid"
                      and app.scene.cursor == app.scene.view.sequences[app.scene.selected or 0].table[0]),
    "block_table": (IN_TABLE, lambda app, source: "block table of" in text(app)),
    "text": (IN_TABLE, lambda app, source: "text of" in text(app)),
    "order": ((), lambda app, source: app.scene.sort == "blocks" and "by blocks" in text(app)),
    "filter": ((), lambda app, source: app.live.focused_panel == "filter"),
    "every_event": ((), lambda app, source: app.scene.all_events),
    "older": (IN_LOG, lambda app, source: app.live.log_panel.back == 1),
    "newer": ((*IN_LOG, "up", "up", "up"), lambda app, source: app.live.log_panel.back == 2),
    "much_older": (IN_LOG, lambda app, source: app.live.log_panel.back == 10),
    "much_newer": ((*IN_LOG, "pageup", "up"), lambda app, source: app.live.log_panel.back == 1),
    "newest": ((*IN_LOG, "pageup"), lambda app, source: app.live.log_panel.back == 0),
    "left": (("end",), lambda app, source: app.scene.cursor == 94),
    "right": (("home",), lambda app, source: app.scene.cursor == 1),
    "up": (("end",), lambda app, source: app.scene.cursor == 95 - shape_of(app).columns),
    "down": (("home",), lambda app, source: app.scene.cursor == shape_of(app).columns),
    "page_up": (("end",), lambda app, source: (app.scene.cursor or 0) < 95 - shape_of(app).columns),
    "page_down": (("home",), lambda app, source: (app.scene.cursor or 0) > shape_of(app).columns),
    "first_block": (("end",), lambda app, source: app.scene.cursor == 0),
    "last_block": ((), lambda app, source: app.scene.cursor == 95),
    "light_owner": (("home",), lambda app, source: app.scene.selected == app.scene.view.blocks.holders[0]),
    "colours": ((), lambda app, source: app.scene.mode == "refs"),
    "zoom_in": (("minus", "minus"), lambda app, source: app.scene.zoom is not None),
    "zoom_out": ((), lambda app, source: app.scene.zoom is not None),
    "zoom_to_fit": (("minus",), lambda app, source: app.scene.zoom is None),
    "live_tab": (("2",), tab("live", "grid")),
    "requests_tab": ((), tab("requests", "requests")),
    "prefix_tab": ((), tab("prefix", "prefix")),
    "lab_tab": ((), tab("lab", "lab")),
    "findings_tab": ((), tab("findings", "findings")),
    "next_request": (("2", "home", "down"), lambda app, source: request_place(app) == 1),
    "previous_request": (("2", "down", "down", "down"), lambda app, source: request_place(app) == 1),
    "ten_requests_down": (("2", "down"), lambda app, source: request_place(app) == 10),
    "ten_requests_up": (("2", "down", "pagedown", "down"), lambda app, source: request_place(app) == 1),
    "blocks_of_request": (("2", "down"), lambda app, source: app.scene.tab == "live"
                          and app.scene.cursor == app.scene.view.sequences[app.scene.selected or 0].table[0]),
    "next_branch": (("3", "down"), lambda app, source: branch_place(app) == 1),
    "previous_branch": (("3", "down", "down", "down"), lambda app, source: branch_place(app) == 1),
    "ten_branches_down": (("3", "down"), lambda app, source: branch_place(app) == 10),
    "ten_branches_up": (("3", "down", "pagedown", "down"),
                        lambda app, source: branch_place(app) == max(0, branches(app) - 11)),
    "block_of_branch": (("3", "down"), tab("live", "grid")),
    "findings_down": (("5",), lambda app, source: app.live.findings.first_line == 1),
    "findings_up": (("5", "down"), lambda app, source: app.live.findings.first_line == 0),
    "findings_page_down": (("5",), lambda app, source: app.live.findings.first_line >= 1),
    "findings_page_up": (("5", "pagedown"), lambda app, source: app.live.findings.first_line == 0),
    "why": (IN_TABLE, opened("Words", "why")),
    "decision": ((), lambda app, source: app.live.in_sight("decision")),
    "freeze": ((), lambda app, source: app.feed.frozen and "view frozen" in text(app)),
    "next_panel": ((), lambda app, source: app.live.focused_panel == "sequences"),
    "previous_panel": ((), lambda app, source: app.live.focused_panel == "log"),
    "theme": ((), opened("Choose", "high-contrast")),
    "copy": (("home",), lambda app, source: app.clipboard.startswith("block 0: ")),
    "screenshot": ((), lambda app, source: list(Path(app.live._pictures).glob("*.svg"))),
    "back": (("end",), lambda app, source: app.scene.cursor is None),
    "help": ((), opened("Help", "The pool. One cell is one block")),
    "palette": ((), lambda app, source: type(app.screen).__name__ == "CommandPalette"),
    "traceback": ((), lambda app, source: "there is no traceback" in text(app)),
    "quit": ((), lambda app, source: app.return_code == 0 and app._exit),
}  # fmt: skip
"""Action → the keys that lead to where it makes sense, and what holds after its own."""


def test_every_action_has_its_effect_here() -> None:
    assert set(EFFECTS) == set(ACTIONS) - OF_OTHERS


async def as_at_first(app: KvtopApp, pilot: Pilot[None], source: SteppedSource) -> None:
    """Whatever the keys before have done is undone."""
    while len(app.screen_stack) > 1:
        app.pop_screen()
        await pilot.pause()
    app.feed.thaw()
    source.engine.apply(control.Resume())
    scene, live = app.scene, app.live
    scene.mode, scene.sort, scene.predict, scene.decision, scene.all_events = "owner", "admitted", False, True, False
    live.log_panel.back = live.findings.first_line = 0
    live.query_one("#filter").remove_class("open")
    live.look_at_nothing()
    await settle(app, pilot)
    source.sent.clear()


@pytest.mark.parametrize("group", sorted({action.group for name, action in ACTIONS.items() if name in EFFECTS}))
async def test_each_key_of_a_group_does_what_it_is_for(group: str, tmp_path: Path) -> None:
    source = story(num_blocks=96, requests=20)
    source.run(160)
    settings = AppSettings(
        history=source.history, pictures_folder=tmp_path, recording=RecordingSwitch(source.recorder, tmp_path)
    )
    size = (120, 20) if group == "tabs" else (120, 36)  # so low that findings must be scrolled
    async with on_stage(source, size, settings) as (app, pilot):
        for _ in range(25):  # until there are findings to scroll through
            source.run(1)
            source.clock_s += 2
            app.feed.poll()
            app.live.tick(True)
        names = [name for name in EFFECTS if ACTIONS[name].group == group]
        for name in sorted(names, key=lambda name: name == "quit"):
            keys = ACTIONS[name].keys.split(",")
            for key in keys if name != "quit" else keys[:1]:
                before, holds = EFFECTS[name]
                await as_at_first(app, pilot, source)
                await pilot.press(*before)
                await settle(app, pilot)
                await pilot.press(key)
                if name != "quit":
                    await settle(app, pilot)
                if name == "traceback":
                    await pilot.pause(0.2)  # a word at the edge of the screen comes in from outside
                assert holds(app, source), (name, key)
