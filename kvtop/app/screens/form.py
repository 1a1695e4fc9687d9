"""What the forms share: labelled fields, a hint for the one being filled in, a line that says what would come of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Grid, Vertical
from textual.content import Content
from textual.screen import ScreenResultType
from textual.widgets import Input, Static

from kvtop.app.paste import PasteInput
from kvtop.app.screens.dialog import Dialog


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    label: str
    default: str
    hint: str


class FieldForm(Dialog[ScreenResultType]):
    """``values`` is read and written, so that it outlives the form. Subclasses say what is to come and send."""

    DEFAULT_CSS = """
    FieldForm > .box { width: 74; padding: 0 2; max-height: 100%; overflow-y: auto; scrollbar-size-vertical: 1; }
    FieldForm Grid { grid-size: 2; grid-columns: 16 1fr; grid-rows: 1; height: auto; grid-gutter: 0 1; }
    FieldForm .label { color: $text-muted; text-align: right; }
    FieldForm Input { background: $raised; }
    FieldForm Input:focus { background: $raised; background-tint: $primary 14%; }
    FieldForm .hint { color: $text-muted; height: 1; margin-top: 1; }
    FieldForm .outcome { height: 2; margin-top: 1; }
    """
    BINDINGS = [
        Binding("enter", "send", "send", show=False, priority=True),
        Binding("down", "app.focus_next", "next", show=False),
        Binding("up", "app.focus_previous", "previous", show=False),
    ]

    SENDS = "send"
    """What enter does, in a word."""

    def __init__(self, title: str, keys: str, fields: Iterable[Field], values: dict[str, str]) -> None:
        super().__init__()
        self._title = title
        self._keys = keys
        self._fields = tuple(fields)
        self.values = values

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = Content(self._title)
            more = "↹ next field · " if len(self._fields) > 1 else ""
            box.border_subtitle = Content(f"enter {self.SENDS} · {more}{self._keys}esc back")
            with Grid():
                for field in self._fields:
                    yield Static(field.label, classes="label", markup=False)
                    yield PasteInput(self.value(field.name), id=field.name, compact=True)
            yield Static("", classes="hint", markup=False)
            yield Static("", classes="outcome", markup=False)

    def value(self, name: str) -> str:
        default = next(field.default for field in self._fields if field.name == name)
        return self.values.get(name, default)

    def filled(self) -> dict[str, str]:
        """What stands in every field now, be the news of its last change on the way still; kept for the next time."""
        self.values |= {field.name: self.query_one(f"#{field.name}", Input).value for field in self._fields}
        return {field.name: self.values[field.name] for field in self._fields}

    def outcome(self) -> Content:
        """What sending would do, or what is wrong."""
        return Content("")

    def show_outcome(self) -> None:
        self.query_one(".outcome", Static).update(self.outcome())

    def on_mount(self) -> None:
        self.show_outcome()

    def on_descendant_focus(self) -> None:
        name = self.focused.id if self.focused is not None else ""
        hint = next((field.hint for field in self._fields if field.name == name), "")
        self.query_one(".hint", Static).update(hint)

    def on_input_changed(self, event: Input.Changed) -> None:
        self.values[event.input.id or ""] = event.value
        self.show_outcome()
