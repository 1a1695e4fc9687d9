"""The config's keys become bindings, help and footer; what cannot be is a warning that says what can."""

from __future__ import annotations

import pytest

from kvtop.app.actions import ACTIONS
from kvtop.app.app import AppSettings
from kvtop.app.key_map import key_map
from kvtop.engine import control
from tests.app.feed import story
from tests.app.stage import on_stage, settle, text


@pytest.mark.parametrize(
    ("written", "bound"),
    [(".", "full_stop"), ("F", "F"), (",", "comma"), ("/", "slash"), ("%", "percent_sign"), (" ", "space"),
     ("f5", "f5"), ("ctrl+x", "ctrl+x"), ("alt+x", "alt+x"), ("insert", "insert"), ("full_stop", "full_stop")],
)  # fmt: skip
def test_keys_are_understood_as_people_write_them(written: str, bound: str) -> None:
    had_it = {name: ("f24",) for name, action in ACTIONS.items() if bound in action.keys.split(",")}
    mapped, warnings = key_map({**had_it, "pause": (written,)}, "c")
    assert mapped["pause"] == bound and warnings == []


@pytest.mark.parametrize(
    ("wanted", "warning"),
    [
        ({"pouse": ("f5",)}, "keys.pouse: there is no action of that name; did you mean pause"),
        ({"zzzz": ("f5",)}, "keys.zzzz: there is no action of that name; kvtop config --keys lists the actions"),
        ({"pause": ("f99",)}, "keys.pause: there is no key 'f99', expected a character or a name like f5"),
        ({"pause": ("\x07",)}, "keys.pause: there is no key '\\x07'"),
        ({"pause": ("q",)}, "keys.pause: q is the key of quit; give that one another key; ignored"),
        ({"pause": ("j",)}, "keys.pause: j is the key of next_sequence; give that one another key; ignored"),
        ({"pause": ("f5",), "step": ("f5",)}, "keys.pause: f5 is the key of step"),
    ],
)
def test_what_cannot_be_is_said_and_left_out(wanted: dict[str, tuple[str, ...]], warning: str) -> None:
    mapped, (said,) = key_map(wanted, "/config.toml")
    assert said.startswith(f"/config.toml: {warning}")
    assert not set(mapped) & {"pouse", "zzzz", "pause"}


def test_two_actions_can_change_keys_and_lists_may_share_theirs() -> None:
    assert key_map({"pause": ("q",), "quit": (" ",)}, "c") == ({"pause": "q", "quit": "space"}, [])
    assert key_map({"next_request": ("f6",), "next_branch": ("f6",)}, "c")[1] == []


async def test_a_key_of_ones_own_works_and_stands_in_footer_help_and_palette() -> None:
    keys, warnings = key_map({"pause": ("f5",), "next_sequence": ("f6",)}, "c")
    async with on_stage(story(96), (120, 130), AppSettings(keys=keys)) as (app, pilot):
        assert warnings == [] and " f5 pause" in text(app)
        await pilot.press("f5", "tab", "f6")
        assert isinstance(app.feed.source.sent[-1], control.Pause)  # type: ignore[attr-defined]
        assert app.scene.selected is not None
        await pilot.press("question_mark")
        await settle(app, pilot)
        assert "f5           Pause the engine" in text(app)
        assert any("f5" in str(command.help) for command in app.get_system_commands(app.screen))


async def test_what_was_wrong_is_said_on_the_screen() -> None:
    settings = AppSettings(warnings=tuple(key_map({"pouse": ("f5",)}, "/config.toml")[1]))
    async with on_stage(story(96), (160, 44), settings) as (app, pilot):
        await pilot.pause(0.3)
        assert "keys.pouse:" in text(app)


def test_keys_of_watched_servers_are_mapped_and_clash_only_with_each_other() -> None:
    assert key_map({"open_server": ["f6"]}, "c") == ({"open_server": "f6"}, [])
    assert key_map({"tables": ["p"]}, "c") == ({"tables": "p"}, []), "p preempts on another screen"
    mapped, warnings = key_map({"tables": ["i"]}, "c")
    assert not mapped and "i is the key of inject" in warnings[0]
