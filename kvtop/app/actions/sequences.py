"""What is done in the sequence table and the log: move, sort, filter. Nothing here reaches the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtop.app.actions.action import Action
from kvtop.app.scene import SORT_KEYS

if TYPE_CHECKING:
    from kvtop.app.screens.live import LiveScreen


def move(live: LiveScreen, step: int) -> None:
    seq = live.sequences.neighbour(step)
    if seq is not None:
        live.select(seq)


def to_first_block(live: LiveScreen) -> None:
    row = live.scene.view.sequences.get(live.scene.selected or 0)
    if row is not None and row.table:
        live.point_at(row.table[0])
        live.set_focus(live.grid)


def toggle_panel(live: LiveScreen, panel: str) -> None:
    """Take it away when it is in sight; else open it, before what else was asked for. It belongs to the live tab."""
    if live.scene.tab != "live":
        live.show_tab("live")
    others = tuple(name for name in live.scene.extras if name != panel)
    opens = not live.in_sight(panel)
    live.scene.extras = (panel, *others) if opens else others
    live.redraw()
    if opens and not live.in_sight(panel):
        live.say("there is no room for it on a screen this low", "warning")


def sort(live: LiveScreen) -> None:
    at = SORT_KEYS.index(live.scene.sort)
    live.scene.sort = SORT_KEYS[(at + 1) % len(SORT_KEYS)]
    live.sequences.redraw()


def filter_rows(live: LiveScreen) -> None:
    live.open_filter()


def scroll_log(live: LiveScreen, lines: int) -> None:
    live.log_panel.scroll_back(lines)


def every_event(live: LiveScreen) -> None:
    live.scene.all_events = not live.scene.all_events
    live.log_panel.redraw()
    live.say("the log shows every event" if live.scene.all_events else "the log shows decisions only")


SEQUENCES: tuple[Action[LiveScreen], ...] = (
    Action("next_sequence", "down,j", "Select the next sequence.", "sequences", lambda live: move(live, 1),
           panel="sequences"),
    Action("previous_sequence", "up,k", "Select the one before.", "sequences", lambda live: move(live, -1),
           panel="sequences"),
    Action("ten_down", "pagedown", "Select the tenth after it.", "sequences", lambda live: move(live, 10),
           panel="sequences"),
    Action("ten_up", "pageup", "Select the tenth before it.", "sequences", lambda live: move(live, -10),
           panel="sequences"),
    Action("to_its_blocks", "enter", "Move the grid's cursor to its first block.", "sequences", to_first_block,
           panel="sequences"),
    Action("block_table", "b", "Its block table, logical to physical, and in the grid. Again: closed.", "sequences",
           lambda live: toggle_panel(live, "table")),
    Action("text", "s", "Its prompt, and its answer as it comes, with its freezes. Again: closed.", "sequences",
           lambda live: toggle_panel(live, "text")),
    Action("order", "o", "Sort by admission, blocks, tokens, shared blocks, name.", "sequences", sort),
    Action("filter", "slash", "Show only sequences whose name, state or prompt holds a text.", "sequences", filter_rows,
           footer=9),
    Action("every_event", "x", "Show every event, or only those in which something was decided.", "log", every_event),
    Action("older", "up,k", "Older events.", "log", lambda live: scroll_log(live, 1), panel="log"),
    Action("newer", "down,j", "Newer events.", "log", lambda live: scroll_log(live, -1), panel="log"),
    Action("much_older", "pageup", "Ten events older.", "log", lambda live: scroll_log(live, 10), panel="log"),
    Action("much_newer", "pagedown", "Ten events newer.", "log", lambda live: scroll_log(live, -10), panel="log"),
    Action("newest", "end", "Follow the newest events again.", "log", lambda live: scroll_log(live, -1_000_000),
           panel="log"),
)  # fmt: skip
