"""The tabs, and what is done in their lists: move, go from a row to its blocks. Nothing reaches the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtop.app.actions.action import Action

if TYPE_CHECKING:
    from kvtop.app.screens.live import LiveScreen


def choose_request(live: LiveScreen, step: int) -> None:
    live.requests.move(step)
    live.redraw()


def choose_branch(live: LiveScreen, step: int) -> None:
    live.prefix.move(step)
    live.redraw()


def to_blocks_of_request(live: LiveScreen) -> None:
    row = live.scene.view.sequences.get(live.scene.selected or 0)
    if row is None or not row.table:
        live.say("it holds no block now", "warning")
        return
    live.show_tab("live")
    live.point_at(row.table[0])


def to_block_of_branch(live: LiveScreen) -> None:
    if live.scene.cursor is not None:
        live.show_tab("live")


def scroll_findings(live: LiveScreen, lines: int) -> None:
    live.findings.scroll_text(lines)


TABS: tuple[Action[LiveScreen], ...] = (
    Action("live_tab", "1", "The pool, its sequences and its events.", "tabs", lambda live: live.show_tab("live")),
    Action("requests_tab", "2", "Every request, and the life of one: waits, freezes, blocks.", "tabs",
           lambda live: live.show_tab("requests")),
    Action("prefix_tab", "3", "What prompts begin with, who shares it, what that saves.", "tabs",
           lambda live: live.show_tab("prefix")),
    Action("lab_tab", "4", "The same traffic through several policies, side by side.", "tabs",
           lambda live: live.show_tab("lab")),
    Action("findings_tab", "5", "What is worth a word, with evidence and advice; and the log.", "tabs",
           lambda live: live.show_tab("findings")),
    Action("next_request", "down,j", "Choose the next request.", "tabs", lambda live: choose_request(live, 1),
           panel="requests"),
    Action("previous_request", "up,k", "Choose the one before.", "tabs", lambda live: choose_request(live, -1),
           panel="requests"),
    Action("ten_requests_down", "pagedown", "Choose the tenth after it.", "tabs",
           lambda live: choose_request(live, 10), panel="requests"),
    Action("ten_requests_up", "pageup", "Choose the tenth before it.", "tabs",
           lambda live: choose_request(live, -10), panel="requests"),
    Action("blocks_of_request", "enter", "Show its blocks in the grid.", "tabs", to_blocks_of_request,
           panel="requests"),
    Action("next_branch", "down,j", "Point at the next branch.", "tabs", lambda live: choose_branch(live, 1),
           panel="prefix"),
    Action("previous_branch", "up,k", "Point at the branch before.", "tabs", lambda live: choose_branch(live, -1),
           panel="prefix"),
    Action("ten_branches_down", "pagedown", "Point at the tenth branch after it.", "tabs",
           lambda live: choose_branch(live, 10), panel="prefix"),
    Action("ten_branches_up", "pageup", "Point at the tenth branch before it.", "tabs",
           lambda live: choose_branch(live, -10), panel="prefix"),
    Action("block_of_branch", "enter", "Show its first block in the grid.", "tabs", to_block_of_branch,
           panel="prefix"),
    Action("findings_down", "down,j", "Read on.", "tabs", lambda live: scroll_findings(live, 1), panel="findings"),
    Action("findings_up", "up,k", "Read back.", "tabs", lambda live: scroll_findings(live, -1), panel="findings"),
    Action("findings_page_down", "pagedown", "Read on, ten lines.", "tabs",
           lambda live: scroll_findings(live, 10), panel="findings"),
    Action("findings_page_up", "pageup", "Read back, ten lines.", "tabs",
           lambda live: scroll_findings(live, -10), panel="findings"),
)  # fmt: skip
