"""Go to a step by its number: what can be shown is said before, and what cannot is refused in words."""

from __future__ import annotations

from collections.abc import Callable

from textual.content import Content

from kvtop.app.feed import Feed
from kvtop.app.screens.form import Field, FieldForm


class GoTo(FieldForm[None]):
    """``go`` shows a step that is within what ``feed`` has."""

    DEFAULT_CSS = "GoTo > .box { width: 54; } GoTo Grid { grid-columns: 6 1fr; }"
    SENDS = "go"

    def __init__(self, feed: Feed, go: Callable[[int], None]) -> None:
        super().__init__("go to a step", "", [Field("step", "step", f"{feed.view.step}", self._range(feed))], {})
        self._feed = feed
        self._go = go

    @staticmethod
    def _range(feed: Feed) -> str:
        first, last = feed.steps
        return f"steps {first:,} to {last:,} can be shown"

    def _wanted(self) -> int | str:
        """The step, or what is wrong with what stands in the field."""
        text = self.filled()["step"].strip()
        try:
            step = int(text.replace(",", ""))
        except ValueError:
            return f"{text!r} is not a step's number"
        first, last = self._feed.steps
        return step if first <= step <= last else f"step {step:,} is not among {first:,} to {last:,}"

    def outcome(self) -> Content:
        wanted = self._wanted()
        return Content.styled(wanted, "$warning") if isinstance(wanted, str) else Content("")

    def action_send(self) -> None:
        wanted = self._wanted()
        if isinstance(wanted, int):
            self.dismiss(None)
            self._go(wanted)
