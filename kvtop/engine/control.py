"""The control channel: every command an operator, a script or an HTTP front end can send to a running engine.

Commands are plain data; the engine answers each with a Reply, applies it between two steps and reports what it did
as events whose cause is the command's Commanded event. Status messages say what the process is doing outside steps.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from kvtop.engine.events import Batch, PreemptMode
from kvtop.engine.requests import Request


class Command(msgspec.Struct, frozen=True, kw_only=True, tag_field="command", tag=str.lower, omit_defaults=True):
    """Base of all commands. ``ticket`` comes back in the Reply."""

    ticket: int = 0


class Inject(Command, frozen=True):
    """Add requests. Their ids must be new; prompts are tokenized by the engine. All are added, or none."""

    requests: list[Request]


class Pause(Command, frozen=True):
    """Stop between two steps."""


class Resume(Command, frozen=True):
    """Run on."""


class Step(Command, frozen=True):
    """Run ``steps`` steps, then pause. With ``until`` run until an event of that type (at most ``steps``)."""

    steps: int = 1
    until: str = ""


class Preempt(Command, frozen=True):
    """Preempt a running sequence now, whatever the pool holds."""

    seq: int
    mode: PreemptMode = "recompute"


class Abort(Command, frozen=True):
    """End a request with everything that belongs to it."""

    request_id: str


class ClearCache(Command, frozen=True):
    """Empty the prefix cache."""


class Set(Command, frozen=True):
    """Change a setting: ``watermark``, ``max_num_seqs``, ``max_num_batched_tokens``, ``victim``, ``preempt``."""

    name: str
    value: str


class SetPriority(Command, frozen=True):
    request_id: str
    priority: int


class Measure(Command, frozen=True):
    """How many tokens a request's prompt has; the Reply's ``value`` is the count. Nothing is added."""

    request: Request


class Spell(Command, frozen=True):
    """What single tokens read as, each by itself: the Reply's ``texts``. A part of a character is U+FFFD."""

    token_ids: list[int]


class TakeSnapshot(Command, frozen=True):
    """Send a snapshot batch now (a reader saw a gap, or joined late)."""


class Quit(Command, frozen=True):
    """End the engine process."""


AnyCommand = (
    Inject | Pause | Resume | Step | Preempt | Abort | ClearCache | Set | SetPriority | Measure | Spell | TakeSnapshot
    | Quit
)  # fmt: skip


class Reply(msgspec.Struct, frozen=True, kw_only=True, tag_field="message", tag="reply", omit_defaults=True):
    """The answer to one command. ``error`` is empty when it was carried out, else a sentence for the operator."""

    ticket: int
    error: str = ""
    value: int = 0
    texts: list[str] = []


EngineState = Literal["loading", "running", "idle", "paused", "failed", "stopped"]


class Status(msgspec.Struct, frozen=True, kw_only=True, tag_field="message", tag="status", omit_defaults=True):
    """What the engine process is doing. ``detail`` is a line for the screen, ``traceback`` is set on failure, and
    while something loads that prints: then it is what was printed last."""

    state: EngineState
    detail: str = ""
    done: float = 0.0
    total: float = 0.0
    """Progress in the unit of ``detail``; total 0: unknown."""
    traceback: str = ""


class BatchMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="message", tag="batch"):
    """A batch on the wire."""

    batch: Batch


AnyMessage = Reply | Status | BatchMessage
