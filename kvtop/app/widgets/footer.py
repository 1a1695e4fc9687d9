"""The footer of the live screen: what a key does can depend on the tab, and on what engine and lab do. A
recording offers nothing that would change an engine."""

from __future__ import annotations

from typing import Any

from kvtop.app.actions.action import Action
from kvtop.app.widgets.key_line import KeyLine
from kvtop.app.widgets.painted import Painted

IN_THE_LAB = {"step": "step", "step_until": "to preemption", "theme": "theme", "help": "help", "quit": "quit"}
"""Of the keys that work everywhere, those that mean something there, and what."""


class Footer(KeyLine, Painted):
    def label(self, action: Action[Any]) -> str:
        if self.scene.tab == "lab":
            return self._label_in_lab(action)
        if action.panel == "lab" or (action.changes_engine and self.scene.feed.tape is not None):
            return ""
        if action.name == "pause" and self.scene.feed.paused:
            return "run on"
        if action.name == "freeze" and self.scene.feed.frozen:
            return "thaw"
        return super().label(action)

    def _label_in_lab(self, action: Action[Any]) -> str:
        if action.name == "pause":
            return "pause" if self.scene.lab.moves else "run"
        return action.title if action.panel == "lab" else IN_THE_LAB.get(action.name, "")
