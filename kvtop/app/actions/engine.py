"""What is done to the engine: pause, step, requests in and out. Every function sends one command and changes nothing
on the screen; what comes of it arrives as events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtop.app.actions.action import Action
from kvtop.app.screens.ask import Ask
from kvtop.app.screens.choose import Choose
from kvtop.app.screens.inject import InjectForm
from kvtop.app.screens.settings import SettingsForm
from kvtop.engine import control
from kvtop.view.sequence_view import SequenceView

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


def pause_or_resume(live: LiveScreen) -> None:
    live.send(control.Resume() if live.scene.feed.live.paused else control.Pause())


def step(live: LiveScreen) -> None:
    if live.scene.feed.in_past:
        live.scene.feed.go_forward()
        live.redraw()
    else:
        live.send(control.Step(steps=1))


def step_until(live: LiveScreen) -> None:
    if live.scene.feed.in_past:
        live.scene.feed.go_forward(live.scene.until)
        live.redraw()
    else:
        live.send(control.Step(steps=MOST_STEPS, until=live.scene.until))


def choose_event(live: LiveScreen) -> None:
    def chosen(kind: str | None) -> None:
        if kind is not None:
            live.scene.until = kind
            live.say(f"> now runs to the next event of the kind “{kind}”: {EVENT_KINDS[kind]}")

    live.app.push_screen(Choose("run to the next …", EVENT_KINDS, live.scene.until), chosen)


def inject(live: LiveScreen) -> None:
    if live.scene.feed.live.info is None:
        live.say("the engine is still loading: requests can be sent when it is ready", "warning")
        return
    live.app.push_screen(InjectForm(live.scene, live.form_values))


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

    held, computed = len(row.table), row.computed
    words = f"It gives up {held:,} blocks and computes {computed:,} tokens again when its turn comes."
    answers = {"y": ("recompute", "preempt")}
    if live.scene.view.swap.num_blocks:
        answers["s"] = ("swap", "swap out")
        words += f" Swapped out, its KV waits in CPU memory: {live.scene.view.swap.free:,} swap blocks are free."
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
    words += f" with the {row.generated:,} tokens it has made so far."
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
    words = (
        f"{cached:,} cached blocks become free, and no prompt finds its beginning in the cache until it fills again."
    )
    live.app.push_screen(Ask("Clear the prefix cache?", words, {"y": ("clear", "clear")}), answered)


def restart(live: LiveScreen) -> None:
    if live.scene.feed.status.state in ("failed", "stopped"):
        live.restart()
    else:
        live.say("the engine is alive; restart is for one that died", "warning")


def selected(live: LiveScreen) -> SequenceView | None:
    """The selected sequence; when there is none, says how to select one."""
    row = live.scene.view.sequences.get(live.scene.selected or 0)
    if row is None:
        live.say("select a sequence first: ↑ ↓ in the table, or enter on one of its blocks", "warning")
    return row


ENGINE = (
    Action("pause", "space", "Pause the engine between two steps; again: run on.", "engine", pause_or_resume, footer=1),
    Action("step", "full_stop", "Run one step, then pause; in the past: one step forward.", "engine", step, footer=2),
    Action("step_until", "greater_than_sign", "Run to the next event of the chosen kind, then pause.", "engine",
           step_until, label="to event", footer=3),
    Action("choose_event", "e", "Choose the kind of event that > runs to.", "engine", choose_event),
    Action("inject", "i", "Send requests: a prompt or a length, how many, how long.", "engine", inject, footer=4),
    Action("preempt", "p", "Take the selected sequence's blocks away; it goes on later.", "engine", preempt, footer=7),
    Action("abort", "a", "End the selected sequence's request.", "engine", abort, footer=8),
    Action("more_urgent", "left_square_bracket", "A smaller priority number for the selected request: sooner.", "engine",
           lambda live: change_priority(live, -1)),
    Action("less_urgent", "right_square_bracket", "A larger one: later.", "engine",
           lambda live: change_priority(live, 1)),
    Action("settings", "O", "Change watermark, caps and victim rule of the running engine.", "engine", change_settings),
    Action("clear_cache", "C", "Empty the prefix cache.", "engine", clear_cache),
    Action("restart", "r", "Start the engine again after it died.", "engine", restart),
)  # fmt: skip
