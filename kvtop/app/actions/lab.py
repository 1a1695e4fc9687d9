"""What is done in the policy lab and nowhere else: speed, ends, what lies there. Its pause and steps are those of
stepping.py, which on the lab's tab move the lab. Nothing reaches an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from textual.app import App

from kvtop.app.actions.action import Action
from kvtop.app.lab.desk import LabDesk
from kvtop.app.screens.choose import Choose
from kvtop.failure import Failure

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

WHAT_RAN = "this engine's traffic so far"


class Scene(Protocol):
    @property
    def lab(self) -> LabDesk: ...


class Host(Protocol):
    """The screen that shows the lab."""

    @property
    def scene(self) -> Scene: ...

    @property
    def app(self) -> App[object]: ...

    def redraw(self) -> None: ...

    def say(self, words: str, severity: SeverityLevel = "information") -> None: ...


def change_speed(screen: Host, direction: int) -> None:
    screen.scene.lab.change_speed(direction)
    screen.redraw()


def run_to_end(screen: Host) -> None:
    screen.scene.lab.run_to_end()
    screen.redraw()


def begin_again(screen: Host) -> None:
    screen.scene.lab.begin_again()
    screen.redraw()


def choose_preset(screen: Host) -> None:
    desk = screen.scene.lab
    titles = {preset.title: preset.about for preset in desk.presets}
    if desk.hear is not None:
        titles[WHAT_RAN] = "under other settings"

    def chosen(title: str | None) -> None:
        if title == WHAT_RAN:
            screen.say("reading what ran here …")
            screen.app.run_worker(lambda: _lay_out_what_ran(screen), thread=True, exclusive=True)
        elif title is not None:
            desk.lay_out(list(titles).index(title))
            screen.redraw()

    screen.app.push_screen(Choose("side by side", titles, desk.preset.title), chosen)


def _lay_out_what_ran(screen: Host) -> None:
    """In a thread, since a long history takes seconds to read."""
    desk, app = screen.scene.lab, screen.app
    assert desk.hear is not None
    try:
        preset = desk.hear()
    except Failure as failure:
        app.call_from_thread(screen.say, str(failure), "warning")
        return

    def put() -> None:
        desk.put(preset)
        screen.redraw()

    app.call_from_thread(put)


LAB: tuple[Action[Any], ...] = (
    Action("lab_faster", "up,k", "More steps a second.", "lab", lambda screen: change_speed(screen, 1), label="faster",
           panel="lab", footer=4),
    Action("lab_slower", "down,j", "Fewer steps a second.", "lab", lambda screen: change_speed(screen, -1),
           label="slower", panel="lab", footer=5),
    Action("lab_end", "end", "To the end, as fast as it goes.", "lab", run_to_end, label="to the end", panel="lab",
           footer=8),
    Action("lab_start", "home", "Back to the first step.", "lab", begin_again, label="to the start", panel="lab",
           footer=9),
    Action("lab_choose", "c", "What lies side by side: twelve slots, the published experiment, what ran here.", "lab",
           choose_preset, label="compare", panel="lab", footer=2),
)  # fmt: skip
