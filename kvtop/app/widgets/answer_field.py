"""The line a guess or an answer is typed into: at the bottom, so that all there is to count stays in sight."""

from __future__ import annotations

from textual.binding import Binding
from textual.message import Message
from textual.widgets import Input


class AnswerField(Input):
    """Hidden until ``ask``, then over the footer, so that nothing moves. It goes with enter, which tells what was
    typed, or with esc, which tells nothing."""

    DEFAULT_CSS = """
    AnswerField { layer: answer; dock: bottom; display: none; background: $raised; }
    AnswerField.open { display: block; }
    """
    BINDINGS = [Binding("escape", "leave", "back", show=False)]

    class Closed(Message):
        """``text`` is what was typed; empty: nothing."""

        def __init__(self, text: str) -> None:
            self.text = text
            super().__init__()

    def __init__(self, id: str) -> None:
        super().__init__(id=id, compact=True)

    def ask(self, unit: str) -> None:
        self.placeholder = f"your answer{f' in {unit}' if unit else ''} · enter checks it · esc back"
        self.value = ""
        self.add_class("open")
        self.focus()

    def action_leave(self) -> None:
        self._close("")

    async def action_submit(self) -> None:
        self._close(self.value.strip())

    def _close(self, text: str) -> None:
        self.remove_class("open")
        self.post_message(self.Closed(text))
