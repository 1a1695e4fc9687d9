"""A line of keys: those most people need, as many as fit. A click on one does what its key does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from textual import events
from textual.message import Message

from kvtop.app.actions.action import Action, key_words
from kvtop.app.lines import Line, Span, fitted, line_width
from kvtop.app.widgets.drawing import Drawing, Scenery


class KeyLine(Drawing):
    class Pressed(Message):
        def __init__(self, name: str) -> None:
            self.name = name
            super().__init__()

    def __init__(self, scene: Scenery, id: str, actions: Sequence[Action[Any]]) -> None:
        super().__init__(scene, id)
        self._actions = sorted((action for action in actions if action.footer), key=lambda action: action.footer)
        self._places: list[tuple[int, int, str]] = []
        """First column, column after the last, action name."""

    def label(self, action: Action[Any]) -> str:
        """What an action is called now; empty: it is not offered."""
        return action.title

    def lines(self, width: int, height: int) -> Sequence[Line]:
        named = self.scene.palette.named
        spans: list[Span] = []
        self._places = []
        at = 0
        for action in self._fitting(width):
            key, label = " " + key_words(action.keys.split(",")[0]), f" {self.label(action)} "
            spans += [(key, named.accent), (label, named.muted)]
            size = line_width(spans[-2:])
            self._places.append((at, at + size, action.name))
            at += size
        return [fitted(spans, width, self.blank)]

    def _fitting(self, width: int) -> list[Action[Any]]:
        """The actions that have room: help and quit always, the others from the first."""
        offered = [action for action in self._actions if self.label(action)]
        sizes = {a.name: line_width([(key_words(a.keys.split(",")[0]), self.blank), (self.label(a), self.blank)]) + 3
                 for a in offered}  # fmt: skip
        kept = [action for action in offered if action.name in ("help", "quit")]
        left = width - sum(sizes[action.name] for action in kept)
        for action in offered:
            if action not in kept and left >= sizes[action.name]:
                kept.append(action)
                left -= sizes[action.name]
        return sorted(kept, key=lambda action: action.footer)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        for start, end, name in self._places:
            if start <= event.x < end:
                self.post_message(self.Pressed(name))
