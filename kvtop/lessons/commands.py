"""The words of a scene's ``do`` list → commands of the control channel.

    pause · resume · step · step 5 · step until preempted · clear cache · set watermark 0.05
    preempt ID · swap ID · abort ID

``preempt`` and ``swap`` name a request; which of its sequences runs is known only when the scene is played.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from kvtop.engine.config import SchedulerConfig
from kvtop.engine.control import Abort, AnyCommand, ClearCache, Pause, Resume, Set, Step
from kvtop.engine.events import AnyEvent, PreemptMode
from kvtop.engine.operations import read_setting

EVENT_TYPES = frozenset(event.__struct_config__.tag for event in get_args(AnyEvent))
MOST_STEPS = 10_000
"""How long ``step until`` may run: an event that never comes must not run for ever."""
_FORMS = "pause, resume, step, step N, step until EVENT, clear cache, set NAME VALUE, preempt ID, swap ID, abort ID"


@dataclass(frozen=True, slots=True)
class PreemptRequest:
    """Preempt the newest running sequence of a request."""

    request_id: str
    mode: PreemptMode


SceneCommand = AnyCommand | PreemptRequest


def parse_command(text: str, swap_blocks: int = 1) -> SceneCommand:
    """One line of ``do``, on an engine with so much swap space.

    Raises:
        ValueError: it is no command, and the message lists them; or it asks for what that engine cannot do.
    """
    match text.split():
        case ["pause"]:
            return Pause()
        case ["resume"]:
            return Resume()
        case ["step"]:
            return Step()
        case ["step", count] if count.isdecimal() and int(count) > 0:
            return Step(steps=int(count))
        case ["step", "until", event]:
            if event not in EVENT_TYPES:
                raise ValueError(f"{text!r}: no event {event!r}, expected one of {', '.join(sorted(EVENT_TYPES))}")
            return Step(steps=MOST_STEPS, until=event)
        case ["clear", "cache"]:
            return ClearCache()
        case ["set", name, value]:
            read_setting(SchedulerConfig(num_blocks=1, swap_blocks=swap_blocks), name, value)
            return Set(name=name, value=value)
        case ["preempt", request_id]:
            return PreemptRequest(request_id, "recompute")
        case ["swap", request_id]:
            if not swap_blocks:
                raise ValueError(f"{text!r}: the lesson's engine has no swap space; give it swap_memory")
            return PreemptRequest(request_id, "swap")
        case ["abort", request_id]:
            return Abort(request_id=request_id)
    raise ValueError(f"{text!r} is no command, expected {_FORMS}")
