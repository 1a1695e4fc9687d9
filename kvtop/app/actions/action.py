"""What an action is. A leaf: it knows no screen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from textual.binding import Binding

ScreenT = TypeVar("ScreenT")
"""The screen it is an action of."""

KEY_NAMES = {
    "space": "space", "full_stop": ".", "greater_than_sign": ">", "comma": ",", "less_than_sign": "<",
    "question_mark": "?", "slash": "/", "plus": "+", "equals_sign": "=", "minus": "-", "tab": "↹",
    "left_square_bracket": "[", "right_square_bracket": "]",
    "shift+tab": "⇧↹", "escape": "esc", "enter": "enter", "up": "↑", "down": "↓", "left": "←", "right": "→",
    "pageup": "PgUp", "pagedown": "PgDn", "home": "Home", "end": "End",
}  # fmt: skip
"""How keys are written on the screen, where that differs from Textual's name."""


@dataclass(frozen=True, slots=True)
class Action(Generic[ScreenT]):
    name: str
    keys: str
    """Comma-separated, in Textual's names."""
    help: str
    """One sentence."""
    group: str
    run: Callable[[ScreenT], None]
    label: str = ""
    """Two words at most, for the footer; empty: the name."""
    panel: str = ""
    """Works only while this panel has the keys; empty: everywhere."""
    changes_engine: bool = False
    """It needs an engine that runs: what was recorded cannot be changed."""
    footer: int = 0
    """Place in the footer, smaller first and last to go when it is narrow; 0: not in it."""

    @property
    def title(self) -> str:
        return self.label or self.name.replace("_", " ")

    def binding(self) -> Binding:
        return Binding(self.keys, f"screen.do('{self.name}')", self.title, id=self.name, show=False)


def key_words(keys: str) -> str:
    """Keys as they are shown: ``"plus,equals_sign"`` → ``"+ ="``."""
    return " ".join(_key_word(key.strip()) for key in keys.split(","))


def _key_word(key: str) -> str:
    if key in KEY_NAMES:
        return KEY_NAMES[key]
    return "^" + key[5:] if key.startswith("ctrl+") else key
