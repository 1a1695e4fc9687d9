"""Change an engine's settings while it runs: what differs from now is sent, one command a setting."""

from __future__ import annotations

from collections.abc import Callable

from textual.content import Content

from kvtop.app.scene import Scene
from kvtop.app.screens.form import Field, FieldForm
from kvtop.engine.control import AnyCommand, Set
from kvtop.view.clean import clean_line

HINTS = {
    "watermark": "share of the pool that an admission must leave free, 0 to below 1",
    "max_num_seqs": "sequences that run at once, at most",
    "max_num_batched_tokens": "tokens a step, at most",
    "victim": "who is preempted: newest, lowest-priority or most-blocks",
    "preempt": "how: recompute, or swap (needs swap space)",
}


class SettingsForm(FieldForm[None]):
    """``send`` sends a command and shows an error in its reply."""

    DEFAULT_CSS = "SettingsForm Grid { grid-columns: 22 1fr; }"

    def __init__(self, scene: Scene, send: Callable[[AnyCommand], None]) -> None:
        settings = scene.feed.live.settings
        fields = [Field(name, name.replace("_", " "), settings.get(name, ""), hint) for name, hint in HINTS.items()]
        super().__init__("settings of the running engine", "", fields, {})
        self._now = dict(settings)
        self._send = send

    def _changes(self) -> dict[str, str]:
        return {name: text.strip() for name, text in self.filled().items() if text.strip() != self._now.get(name, "")}

    def outcome(self) -> Content:
        changes = [f"{name}: {self._now.get(name, '')} → {value}" for name, value in self._changes().items()]
        return Content(clean_line("; ".join(changes) or "nothing is changed", 140))

    def action_send(self) -> None:
        for name, value in self._changes().items():
            self._send(Set(name=name, value=value))
        self.dismiss(None)
