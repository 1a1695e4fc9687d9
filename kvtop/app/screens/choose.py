"""One of a few: a list of names with a word about each."""

from __future__ import annotations

from collections.abc import Mapping

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from kvtop.app.screens.dialog import Dialog


class Choose(Dialog[str]):
    """Result: the chosen name, None when it was closed."""

    DEFAULT_CSS = """
    Choose > .box { padding: 0 1; }
    Choose OptionList { width: auto; max-width: 100%; height: auto; max-height: 24; border: none; }
    Choose OptionList { background: $background; padding: 0; }
    Choose OptionList:focus { border: none; }
    """

    def __init__(self, title: str, choices: Mapping[str, str], current: str) -> None:
        super().__init__()
        self._title = title
        self._choices = choices
        self._current = current

    def compose(self) -> ComposeResult:
        wide = max(len(name) for name in self._choices)
        with Vertical(classes="box") as box:
            box.border_title = Content(self._title)
            yield OptionList(
                *(
                    Option(Content.assemble((name.ljust(wide), "bold"), "  ", (words, "$text-muted")), id=f"n{index}")
                    for index, (name, words) in enumerate(self._choices.items())
                ),
                markup=False,
            )

    def on_mount(self) -> None:
        names = list(self._choices)
        if self._current in names:
            self.query_one(OptionList).highlighted = names.index(self._current)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(list(self._choices)[event.option_index])
