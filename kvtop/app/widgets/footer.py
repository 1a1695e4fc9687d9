"""The footer of the live screen: what a key does can depend on what the engine does."""

from __future__ import annotations

from typing import Any

from kvtop.app.actions.action import Action
from kvtop.app.widgets.key_line import KeyLine
from kvtop.app.widgets.painted import Painted


class Footer(KeyLine, Painted):
    def label(self, action: Action[Any]) -> str:
        if action.name == "pause" and self.scene.feed.paused:
            return "run on"
        if action.name == "freeze" and self.scene.feed.frozen:
            return "thaw"
        return super().label(action)
