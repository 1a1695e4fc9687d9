"""What all dialogs share: a framed box in the middle, ``esc`` to leave, the screen behind it still in sight."""

from __future__ import annotations

from textual.binding import Binding
from textual.screen import ModalScreen, ScreenResultType


class Dialog(ModalScreen[ScreenResultType]):
    """``esc`` closes it without a result; a screenshot shows it too (``ctrl+s`` where ``S`` is text)."""

    DEFAULT_CSS = """
    Dialog { align: center middle; background: $background 55%; }
    Dialog:nocolor { background: transparent; }
    Dialog > .box {
        width: auto; height: auto; max-width: 90%; max-height: 90%;
        border: round $border-focus; border-title-color: $primary; border-subtitle-color: $text-muted;
        background: $background; padding: 1 2;
    }
    """
    BINDINGS = [
        Binding("escape", "leave", "back", show=False),
        Binding("S,ctrl+s", "app.save_picture", "screenshot", show=False),
    ]

    def action_leave(self) -> None:
        self.dismiss(None)
