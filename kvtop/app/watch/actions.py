"""What keys do over watched servers. Names that the live screen has too listen to the same keys, remapped or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from textual.binding import BindingType

from kvtop.app.actions.action import Action
from kvtop.app.screens.choose import Choose
from kvtop.app.screens.help import Help
from kvtop.view.fleet_log import FleetLog

if TYPE_CHECKING:
    from kvtop.app.watch.fleet_screen import FleetScreen
    from kvtop.app.watch.screen import WatchScreen
    from kvtop.app.watch.server_screen import ServerScreen


def theme(screen: WatchScreen) -> None:
    def chosen(name: str | None) -> None:
        if name is not None:
            screen.use_theme(name)

    names = {name: "dark" if found.dark else "light" for name, found in screen.themes.items()}
    screen.app.push_screen(Choose("theme", names, screen.scene.palette.theme.name), chosen)


def help_screen(screen: WatchScreen) -> None:
    screen.app.push_screen(Help(screen.focused_panel, screen.actions))


def choose(screen: WatchScreen, step: int) -> None:
    screen.scene.move(step)
    screen.redraw()


def wind(screen: WatchScreen, seconds: float) -> None:
    """In a recording: to another time; 0 pauses it or plays it on."""
    recording = screen.scene.recording
    if recording is None:
        screen.say("these servers are there: only a recording can be paused and wound", "warning")
        return
    if seconds:
        recording.wind(seconds)
        screen.scene.log = FleetLog()
    else:
        recording.pause_or_play()
    screen.scene.look()
    screen.redraw()


ANYWHERE: tuple[Action[WatchScreen], ...] = (
    Action("next_panel", "tab", "Give the keys to the next panel.", "view", lambda screen: screen.focus_panel(1),
           label="panel", footer=10),
    Action("previous_panel", "shift+tab", "The panel before.", "view", lambda screen: screen.focus_panel(-1)),
    Action("back", "escape", "Back to where you came from.", "view", lambda screen: screen.back_out(), footer=9),
    Action("pause", "space", "In a recording: pause it; again: play on.", "stepping", lambda screen: wind(screen, 0),
           footer=1),
    Action("step", "full_stop", "In a recording: one second forward.", "stepping", lambda screen: wind(screen, 1),
           footer=2),
    Action("step_back", "comma", "In a recording: ten seconds back.", "stepping", lambda screen: wind(screen, -10),
           footer=3),
    Action("step_until", "greater_than_sign", "In a recording: a minute forward.", "stepping",
           lambda screen: wind(screen, 60)),
    Action("theme", "t", "Choose a theme.", "view", theme, footer=11),
    Action("screenshot", "S,ctrl+s", "Save the screen as an SVG file.", "view", lambda screen: screen.save_picture()),
    Action("help", "question_mark", "Keys, and how to read the panel that has them.", "view", help_screen, footer=12),
    Action("palette", "ctrl+p", "Find any action by its name.", "view",
           lambda screen: screen.app.action_command_palette()),
    Action("suspend", "ctrl+z", "Back to the shell; its fg comes back here.", "view",
           lambda screen: screen.app.action_suspend_process()),
    Action("quit", "q,ctrl+c,ctrl+q", "Leave at once.", "view", lambda screen: screen.app.exit(0), footer=13),
)  # fmt: skip

FLEET: tuple[Action[FleetScreen], ...] = (
    Action("open_server", "enter", "Open the chosen rank, at the deepest depth it allows.", "servers",
           lambda screen: screen.open_server(), label="open", panel="fleet", footer=1),
    Action("next_rank", "down,j", "Choose the next rank.", "servers", lambda screen: choose(screen, 1), panel="fleet"),
    Action("previous_rank", "up,k", "Choose the one before.", "servers", lambda screen: choose(screen, -1),
           panel="fleet"),
    Action("ten_ranks_down", "pagedown", "Choose the tenth after it.", "servers", lambda screen: choose(screen, 10),
           panel="fleet"),
    Action("ten_ranks_up", "pageup", "Choose the tenth before it.", "servers", lambda screen: choose(screen, -10),
           panel="fleet"),
)  # fmt: skip

SERVER: tuple[Action[ServerScreen], ...] = (
    Action("metrics_tab", "1", "What its metrics tell: latencies, requests, capacity, charts.", "servers",
           lambda screen: screen.show_tab("metrics"), label="metrics", footer=4),
    Action("sent_tab", "2", "The requests that were sent to it from here, and what became of them.", "servers",
           lambda screen: screen.show_tab("sent"), label="sent"),
    Action("inject", "i", "Send requests to its OpenAI endpoint: a prompt or a length, how many, how long.", "servers",
           lambda screen: screen.inject(), footer=8),
    Action("abort", "a", "End the chosen request that was sent from here.", "servers",
           lambda screen: screen.abort(everything=False), panel="sent"),
    Action("abort_all", "A", "End all requests that were sent from here.", "servers",
           lambda screen: screen.abort(everything=True)),
    Action("next_sent", "down,j", "Choose the next request.", "servers", lambda screen: screen.sent.move(1),
           panel="sent"),
    Action("previous_sent", "up,k", "Choose the one before.", "servers", lambda screen: screen.sent.move(-1),
           panel="sent"),
    Action("prefix_tab", "3", "Logical residency: which content is cached where, by its KV events.", "servers",
           lambda screen: screen.show_tab("prefix"), label="residency", footer=5),
    Action("findings_tab", "5", "What is worth a word, with evidence and the setting to change.", "servers",
           lambda screen: screen.show_tab("findings"), label="findings", footer=6),
    Action("tables", "m", "Its true block tables, where the server carries our exporter; again: back to metrics.",
           "servers", lambda screen: screen.open_tables(), label="true tables", footer=7),
    Action("next_server", "right_square_bracket", "The next rank.", "servers", lambda screen: choose(screen, 1)),
    Action("previous_server", "left_square_bracket", "The rank before.", "servers", lambda screen: choose(screen, -1)),
    Action("next_branch", "down,j", "Further down.", "servers", lambda screen: screen.scroll_contents(1),
           panel="prefix"),
    Action("previous_branch", "up,k", "Further up.", "servers", lambda screen: screen.scroll_contents(-1),
           panel="prefix"),
    Action("ten_branches_down", "pagedown", "Ten lines down.", "servers",
           lambda screen: screen.scroll_contents(10), panel="prefix"),
    Action("ten_branches_up", "pageup", "Ten lines up.", "servers",
           lambda screen: screen.scroll_contents(-10), panel="prefix"),
)  # fmt: skip

READING: tuple[Action[WatchScreen], ...] = (
    Action("findings_down", "down,j", "Read on.", "servers", lambda screen: screen.findings.scroll_rows(1),
           panel="findings"),
    Action("findings_up", "up,k", "Read back.", "servers", lambda screen: screen.findings.scroll_rows(-1),
           panel="findings"),
    Action("findings_page_down", "pagedown", "Read on, ten lines.", "servers",
           lambda screen: screen.findings.scroll_rows(10), panel="findings"),
    Action("findings_page_up", "pageup", "Read back, ten lines.", "servers",
           lambda screen: screen.findings.scroll_rows(-10), panel="findings"),
)  # fmt: skip


WATCH_ACTIONS: dict[str, Action[Any]] = {
    action.name: action for actions in (ANYWHERE, FLEET, SERVER, READING) for action in cast(Any, actions)
}


def bindings_of(actions: Sequence[Action[Any]]) -> list[BindingType]:
    """Bindings of a screen that has these actions of its own: what works whichever panel has the keys."""
    return [action.binding() for action in (*ANYWHERE, *actions) if not action.panel]


def watch_bindings(panel: str) -> list[BindingType]:
    """Bindings of the actions that work only while ``panel`` has the keys."""
    actions: Sequence[Action[Any]] = (*FLEET, *SERVER, *READING)
    return [action.binding() for action in actions if action.panel == panel]
