"""What is done in the policy lab and nowhere else: speed, ends, what lies there. Its pause and steps are those of
stepping.py, which on the lab's tab move the lab. Nothing reaches an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtop.app.actions.action import Action

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


def next_preset(live: LiveScreen) -> None:
    live.scene.lab.lay_out(live.scene.lab.at + 1)
    live.redraw()


LAB: tuple[Action[LiveScreen], ...] = (
    Action("lab_faster", "up,k", "More steps a second.", "lab", lambda live: change_speed(live, 1), label="faster",
           panel="lab", footer=4),
    Action("lab_slower", "down,j", "Fewer steps a second.", "lab", lambda live: change_speed(live, -1),
           label="slower", panel="lab", footer=5),
    Action("lab_end", "end", "To the end, as fast as it goes.", "lab", run_to_end, label="to the end", panel="lab",
           footer=8),
    Action("lab_start", "home", "Back to the first step.", "lab", begin_again, label="to the start", panel="lab",
           footer=9),
    Action("lab_next", "n", "Something else side by side: twelve slots, the published experiment, real regions.",
           "lab", next_preset, label="next picture", panel="lab", footer=2),
)  # fmt: skip
