"""Everything a key can do, in one list: help, palette, footer and key bindings are all made from it.

An action is a name (for the config's key map), keys, words and a function of the live screen. Each module here holds
the actions of one concern next to the functions that carry them out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.binding import BindingType

from kvtop.app.actions.action import Action
from kvtop.app.actions.engine import ENGINE
from kvtop.app.actions.grid import GRID
from kvtop.app.actions.lab import LAB
from kvtop.app.actions.lessons import LESSONS
from kvtop.app.actions.sequences import SEQUENCES
from kvtop.app.actions.stepping import STEPPING
from kvtop.app.actions.tabs import TABS
from kvtop.app.actions.window import WINDOW

if TYPE_CHECKING:
    from kvtop.app.screens.live import LiveScreen

ACTIONS: dict[str, Action[LiveScreen]] = {
    action.name: action for action in (*STEPPING, *ENGINE, *SEQUENCES, *GRID, *TABS, *LAB, *LESSONS, *WINDOW)
}


def panel_bindings(panel: str) -> list[BindingType]:
    """Bindings of the actions that work only while ``panel`` has the keys; "": of those that work everywhere."""
    return [action.binding() for action in ACTIONS.values() if action.panel == panel]
