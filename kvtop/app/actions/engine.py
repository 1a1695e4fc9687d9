"""What is done to the engine: requests in and out, settings, its cache, its restart. A function sends a command and
changes nothing on the screen; what comes of it arrives as events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtop.app.actions.action import Action
from kvtop.app.screens.ask import Ask
from kvtop.app.screens.inject import InjectForm
from kvtop.app.screens.settings import SettingsForm
from kvtop.engine import control
from kvtop.sources.frames import RecordingError
from kvtop.view.sequence_view import SequenceView
from kvtop.view.words import count

if TYPE_CHECKING:
    from kvtop.app.screens.live import LiveScreen


def inject(live: LiveScreen) -> None:
    live.app.push_screen(InjectForm(live.destination, live.form_values))


def preempt(live: LiveScreen) -> None:
    row = selected(live)
    if row is None:
        return
    if row.status != "running":
        live.say(f"{row.name} does not run, so there is nothing to preempt", "warning")
        return

    def answered(mode: str | None) -> None:
        if mode == "recompute":
            live.send(control.Preempt(seq=row.seq))
        elif mode == "swap":
            live.send(control.Preempt(seq=row.seq, mode="swap"))

    held, again = count(len(row.table), "block"), count(row.computed, "token")
    if live.scene.view.caches_prefixes:
        again = f"up to {again}"  # what is still cached then is found there
    words = f"It gives up {held} and computes {again} again when its turn comes."
    answers = {"y": ("recompute", "preempt")}
    swap = live.scene.view.swap
    if swap.num_blocks:
        answers["s"] = ("swap", "swap out")
        room = f"{swap.free:,} of {count(swap.num_blocks, 'swap block')} free"
        words += f" Swapped out, its KV waits in CPU memory: {room}."
    live.app.push_screen(Ask(f"Preempt {row.name}?", words, answers), answered)


def abort(live: LiveScreen) -> None:
    row = selected(live)
    if row is None:
        return

    def answered(answer: str | None) -> None:
        if answer:
            live.send(control.Abort(request_id=row.request_id))

    siblings = sum(other.request_id == row.request_id for other in live.scene.view.sequences.values())
    words = f"All {siblings} of its sequences end" if siblings > 1 else "It ends"
    words += f" with the {count(row.generated, 'token')} made so far."
    live.app.push_screen(Ask(f"Abort {row.name}?", words, {"y": ("abort", "abort")}), answered)


def change_settings(live: LiveScreen) -> None:
    if live.scene.feed.live.info is None:
        live.say("the engine is still loading", "warning")
    else:
        live.app.push_screen(SettingsForm(live.scene, live.send))


def change_priority(live: LiveScreen, step: int) -> None:
    row = selected(live)
    if row is not None:
        live.send(control.SetPriority(request_id=row.request_id, priority=row.priority + step))


def clear_cache(live: LiveScreen) -> None:
    def answered(answer: str | None) -> None:
        if answer:
            live.send(control.ClearCache())

    cached = live.scene.view.blocks.cached
    becomes = f"{count(cached, 'cached block')} {'becomes' if cached == 1 else 'become'} free"
    words = f"{becomes}, and no prompt finds its beginning in the cache until it fills again."
    live.app.push_screen(Ask("Clear the prefix cache?", words, {"y": ("clear", "clear")}), answered)


def record(live: LiveScreen) -> None:
    """Also brings back an engine that died: then there is nothing to record."""
    recording = live.scene.recording
    if live.scene.feed.status.state in ("failed", "stopped"):
        live.restart()
    elif recording is None:
        live.say("there is no engine here to record", "warning")
    else:
        try:
            live.say(recording.toggle())
        except RecordingError as error:
            live.say(str(error), "error")
        live.redraw()


def selected(live: LiveScreen) -> SequenceView | None:
    """The selected sequence; when there is none, says how to select one."""
    row = live.scene.view.sequences.get(live.scene.selected or 0)
    if row is None:
        live.say("select a sequence first: ↑ ↓ in the table, or enter on one of its blocks", "warning")
    return row


ENGINE: tuple[Action[LiveScreen], ...] = (
    Action("inject", "i", "Send requests: a prompt or a length, how many, how long.", "engine", inject,
           changes_engine=True, footer=4),
    Action("preempt", "p", "Take the selected sequence's blocks away; it goes on later.", "engine", preempt,
           changes_engine=True, footer=7),
    Action("abort", "a", "End the selected sequence's request.", "engine", abort, changes_engine=True, footer=8),
    Action("more_urgent", "left_square_bracket", "A smaller priority number for the selected one: sooner.", "engine",
           lambda live: change_priority(live, -1), changes_engine=True),
    Action("less_urgent", "right_square_bracket", "A larger one: later.", "engine",
           lambda live: change_priority(live, 1), changes_engine=True),
    Action("settings", "O", "Change watermark, caps, victim rule and preempt mode of the running engine.", "engine",
           change_settings, changes_engine=True),
    Action("clear_cache", "C", "Empty the prefix cache.", "engine", clear_cache, changes_engine=True),
    Action("record", "r", "Record to a file, or end it. After the engine died: start it again.", "engine", record),
)  # fmt: skip
