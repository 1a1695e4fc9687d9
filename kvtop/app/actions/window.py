"""What is done to the screen itself: help, panels, theme, freeze, screenshot, the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtop.app.actions.action import Action
from kvtop.app.actions.sequences import toggle_panel
from kvtop.app.screens.choose import Choose
from kvtop.app.screens.help import Help
from kvtop.app.screens.words import Words

if TYPE_CHECKING:
    from kvtop.app.screens.live import LiveScreen


def freeze(live: LiveScreen) -> None:
    feed = live.scene.feed
    if feed.frozen:
        feed.thaw()
    else:
        feed.freeze()
    live.redraw()


def why(live: LiveScreen) -> None:
    live.app.push_screen(Words("why", live.reason()))


def theme(live: LiveScreen) -> None:
    def chosen(name: str | None) -> None:
        if name is not None:
            live.use_theme(name)

    names = {name: "dark" if found.dark else "light" for name, found in live.themes.items()}
    live.app.push_screen(Choose("theme", names, live.scene.palette.theme.name), chosen)


def decision(live: LiveScreen) -> None:
    live.scene.decision = not live.in_sight("decision")
    toggle_panel(live, "decision")


def help_screen(live: LiveScreen) -> None:
    live.app.push_screen(Help(live.focused_panel, live.actions))


def copy_facts(live: LiveScreen) -> None:
    live.copy(live.pointed_at())


def screenshot(live: LiveScreen) -> None:
    live.save_picture()


def back(live: LiveScreen) -> None:
    live.back_out()


def traceback(live: LiveScreen) -> None:
    live.show_traceback()


def palette(live: LiveScreen) -> None:
    live.app.action_command_palette()


def quit_app(live: LiveScreen) -> None:
    live.app.exit(0)


WINDOW: tuple[Action[LiveScreen], ...] = (
    Action("why", "w", "Why what is selected waits, was thrown out, was copied: one sentence.", "view", why, footer=5),
    Action("decision", "d", "The way the scheduler took for the last block it needed.", "view", decision),
    Action("freeze", "z", "Freeze the view only; the engine runs on. Again: catch up.", "view", freeze, footer=10),
    Action("next_panel", "tab", "Give the keys to the next panel.", "view", lambda live: live.focus_panel(1),
           label="panel", footer=6),
    Action("previous_panel", "shift+tab", "The panel before.", "view", lambda live: live.focus_panel(-1)),
    Action("theme", "t", "Choose a theme.", "view", theme, footer=11),
    Action("copy", "y", "Copy the facts of what is selected to the clipboard.", "view", copy_facts),
    Action("screenshot", "S,ctrl+s", "Save the screen as an SVG file.", "view", screenshot),
    Action("back", "escape", "Take back the last choice: filter, selection, cursor.", "view", back),
    Action("help", "question_mark", "Keys, and how to read the panel that has them.", "view", help_screen, footer=12),
    Action("palette", "ctrl+p", "Find any action by its name.", "view", palette),
    Action("traceback", "T", "The full error of an engine that died.", "view", traceback),
    Action("suspend", "ctrl+z", "Back to the shell; its fg comes back here. The engine runs on.", "view",
           lambda live: live.app.action_suspend_process()),
    Action("quit", "q,ctrl+c,ctrl+q", "Leave at once.", "view", quit_app, footer=13),
)  # fmt: skip
