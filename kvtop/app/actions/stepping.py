"""When the engine runs and which moment is shown: pause, step, run to an event, breakpoints, predicting, going back.

Going back moves the view through what was recorded; the engine stays where it is (in a recording, the recording moves).
On the lab's tab the same keys move the lab.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kvtop.app.actions.action import Action
from kvtop.app.breakpoints import Breakpoint, FreeBelow, Preemption, Written
from kvtop.app.lab.desk import LabDesk
from kvtop.app.screens.choose import Choose
from kvtop.app.screens.go_to import GoTo
from kvtop.engine import control
from kvtop.sources.frames import RecordingError

if TYPE_CHECKING:
    from kvtop.app.screens.live import LiveScreen

MOST_STEPS = 100_000
"""Where ``>`` gives up when the event it waits for never comes."""

EVENT_KINDS = {
    "preempted": "a sequence loses its blocks",
    "shortage": "a sequence needs more blocks than are free",
    "evicted": "cached blocks are given up",
    "copied": "a shared block is copied before it is written",
    "admitted": "a waiting sequence starts to run",
    "resumed": "a preempted sequence runs again",
    "hit": "a prompt finds its beginning in the prefix cache",
    "waits": "the head of the queue cannot be admitted",
    "finished": "a sequence ends",
    "queued": "a request arrives",
    "allocated": "a table grows",
    "cached": "full blocks enter the prefix index",
    "freed": "a sequence gives up its table",
}


def _in_lab(change: Callable[[LabDesk], None], elsewhere: Callable[[LiveScreen], None]) -> Callable[[LiveScreen], None]:
    """``change`` the lab where that is in sight."""

    def run(live: LiveScreen) -> None:
        if live.scene.tab == "lab":
            change(live.scene.lab)
            live.redraw()
        else:
            elsewhere(live)

    return run


def pause(live: LiveScreen) -> None:
    live.send(control.Resume() if live.scene.feed.paused else control.Pause())


def step(live: LiveScreen) -> None:
    if live.scene.feed.in_past:
        live.scene.feed.go_forward()
        live.redraw()
    else:
        _hide_outcome(live)
        live.send(control.Step(steps=1))


def step_until(live: LiveScreen) -> None:
    if live.scene.feed.in_past:
        live.scene.feed.go_forward(live.scene.until)
        live.redraw()
    else:
        _hide_outcome(live)
        live.send(control.Step(steps=MOST_STEPS, until=live.scene.until))


def _hide_outcome(live: LiveScreen) -> None:
    """While predicting, the view stays at the step before until the outcome is uncovered."""
    feed = live.scene.feed
    if live.scene.predict and feed.paused:
        feed.thaw()
        feed.freeze()


def choose_event(live: LiveScreen) -> None:
    def chosen(kind: str | None) -> None:
        if kind is not None:
            live.scene.until = kind
            live.say(f"> now runs to the next event of the kind “{kind}”: {EVENT_KINDS[kind]}")

    live.app.push_screen(Choose("run to the next …", EVENT_KINDS, live.scene.until), chosen)


def predict(live: LiveScreen) -> None:
    live.scene.predict = not live.scene.predict
    if live.scene.predict:
        live.say("steps keep their outcome hidden until u uncovers it")
    else:
        live.scene.feed.thaw()
        live.say("steps show their outcome at once")
    live.redraw()


def uncover(live: LiveScreen) -> None:
    if live.scene.predict and live.scene.feed.frozen:
        live.scene.feed.thaw()
        live.redraw()
    else:
        live.say("nothing is hidden; P hides the outcome of the next steps", "warning")


def toggle_breakpoint(live: LiveScreen) -> None:
    """Offer what can be waited for; what is set already is marked and goes when it is chosen."""
    feed, scene = live.scene.feed, live.scene
    points: list[Breakpoint] = [FreeBelow(0.05), FreeBelow(0.20), Preemption(0, "")]
    row = scene.view.sequences.get(scene.selected or 0)
    if row is not None:
        points.append(Preemption(row.seq, row.name))
    if scene.cursor is not None:
        points.append(Written(scene.cursor, scene.view.block_id(scene.cursor)))
    points += [point for point in feed.breakpoints.active if point not in points]
    by_words = {point.words: point for point in points}

    def chosen(words: str | None) -> None:
        if words is not None:
            is_set = feed.breakpoints.toggle(by_words[words], feed.live)
            live.say(f"breakpoint {'set' if is_set else 'taken away'}: {words}")

    marks = {words: "set" if point in feed.breakpoints.active else "" for words, point in by_words.items()}
    live.app.push_screen(Choose("pause when …", marks, ""), chosen)


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


def go_to_step(live: LiveScreen) -> None:
    feed = live.scene.feed

    def go(step: int) -> None:
        try:
            feed.go_to(step)
        except RecordingError as error:
            live.say(str(error), "error")
        live.redraw()

    if feed.live.info is None:
        live.say("there is no step yet", "warning")
    else:
        live.app.push_screen(GoTo(feed, go))


STEPPING: tuple[Action[LiveScreen], ...] = (
    Action("pause", "space", "Pause the engine between two steps; again: run on.", "stepping",
           _in_lab(LabDesk.toggle, pause), footer=1),
    Action("step", "full_stop", "Run one step, then pause; in the past: one step forward.", "stepping",
           _in_lab(LabDesk.step, step), footer=2),
    Action("step_until", "greater_than_sign", "Run to the next event of the chosen kind, then pause.", "stepping",
           _in_lab(LabDesk.run_to_preemption, step_until), label="to event", footer=3),
    Action("choose_event", "e", "Choose the kind of event that > runs to.", "stepping", choose_event),
    Action("step_back", "comma", "One step back in what was recorded; the engine stays.", "stepping",
           _in_lab(LabDesk.step_back, step_back), label="back"),
    Action("event_back", "less_than_sign", "Back to the event before, of the kind e chose.", "stepping",
           _in_lab(LabDesk.back_to_preemption, event_back)),
    Action("go_to_step", "g", "Show a step by its number; the engine stays.", "stepping", go_to_step),
    Action("breakpoint", "B", "Pause when blocks run short, a sequence is preempted, a block is written.", "stepping",
           toggle_breakpoint),
    Action("predict", "P", "Hide what a step decided: a class answers first.", "stepping", predict),
    Action("uncover", "u", "Uncover what the step decided.", "stepping", uncover),
)  # fmt: skip
