"""What is done in the policy lab and nowhere else: speed, ends, what lies there. Its pause and steps are those of
stepping.py, which on the lab's tab move the lab. Nothing reaches an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtop.app.actions.action import Action
from kvtop.app.screens.choose import Choose

if TYPE_CHECKING:
    from kvtop.app.screens.live import LiveScreen


def change_speed(live: LiveScreen, direction: int) -> None:
    live.scene.lab.change_speed(direction)
    live.redraw()


def run_to_end(live: LiveScreen) -> None:
    live.scene.lab.run_to_end()
    live.redraw()


def begin_again(live: LiveScreen) -> None:
    live.scene.lab.begin_again()
    live.redraw()


def choose_preset(live: LiveScreen) -> None:
    desk = live.scene.lab
    titles = {preset.title: preset.about for preset in desk.presets}

    def chosen(title: str | None) -> None:
        if title is not None:
            desk.lay_out(list(titles).index(title))
            live.redraw()

    live.app.push_screen(Choose("side by side", titles, desk.preset.title), chosen)


LAB: tuple[Action[LiveScreen], ...] = (
    Action("lab_faster", "up,k", "More steps a second.", "lab", lambda live: change_speed(live, 1), label="faster",
           panel="lab", footer=4),
    Action("lab_slower", "down,j", "Fewer steps a second.", "lab", lambda live: change_speed(live, -1),
           label="slower", panel="lab", footer=5),
    Action("lab_end", "end", "To the end, as fast as it goes.", "lab", run_to_end, label="to the end", panel="lab",
           footer=8),
    Action("lab_start", "home", "Back to the first step.", "lab", begin_again, label="to the start", panel="lab",
           footer=9),
    Action("lab_choose", "c", "What lies side by side: twelve slots, the published experiment, real regions.", "lab",
           choose_preset, label="compare", panel="lab", footer=2),
)  # fmt: skip
