"""Stepping the view back through what was recorded, and forward again. The engine stays where it is; in a recording,
the recording moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtop.app.actions.action import Action
from kvtop.sources.frames import RecordingError

if TYPE_CHECKING:
    from kvtop.app.screens.live import LiveScreen


def step_back(live: LiveScreen) -> None:
    _go_back(live, "")


def event_back(live: LiveScreen) -> None:
    _go_back(live, live.scene.until)


def _go_back(live: LiveScreen, until: str) -> None:
    feed = live.scene.feed
    try:
        moved = feed.go_back(until)
    except RecordingError as error:
        live.say(str(error), "error")
        return
    if not moved:
        what = f"no “{until}” before this step" if until else "nothing before this step"
        live.say(f"{what} in what is recorded", "warning")
    live.redraw()


PAST = (
    Action(
        "step_back", "comma", "One step back in what was recorded; the engine stays where it is.", "engine", step_back
    ),
    Action("event_back", "less_than_sign", "Back to the event before, of the kind that e chose.", "engine", event_back),
)
