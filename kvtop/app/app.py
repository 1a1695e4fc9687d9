"""The Textual app over one engine: one timer, one scene, one live screen. Keys, panels and dialogs live elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.app import SystemCommand
from textual.screen import Screen

from kvtop.app.actions.action import key_words
from kvtop.app.actions.lab import WHAT_RAN
from kvtop.app.desk import EngineDesk
from kvtop.app.feed import Feed
from kvtop.app.recording import RecordingSwitch
from kvtop.app.scene import Scene
from kvtop.app.screens.live import LiveScreen
from kvtop.app.shell import Shell, ShellSettings
from kvtop.engine.control import AnyCommand
from kvtop.lessons.course import Course, Syllabus
from kvtop.sources.history import History
from kvtop.sources.source import Source

if TYPE_CHECKING:
    from kvtop.lab.presets import Preset


@dataclass(frozen=True, slots=True)
class AppSettings(ShellSettings):
    first_commands: tuple[AnyCommand, ...] = ()
    """Sent at the start; the engine carries them out before its first step."""
    history: History | None = None
    """What is recorded while the engine runs, to step back into."""
    recording: RecordingSwitch | None = None
    """Begins and ends files; None: there is nothing to record."""
    syllabus: Syllabus | None = None
    """The lessons to play; None: this is no place for lessons."""
    listening: str = ""
    """Where clients can send requests; empty: nowhere."""


def what_ran(history: History) -> Preset:
    """What has run so far, under other settings.

    Raises:
        Failure: it cannot be read, or nothing has run.
    """
    from kvtop.lab.what_if_preset import hear, usual_tries, what_if_preset

    traffic, _ = hear(history.timeline())
    assert traffic.info is not None, "who was heard ran on an engine"
    return what_if_preset(WHAT_RAN, traffic, traffic.info, usual_tries(traffic.info))


class KvtopApp(Shell):
    def __init__(self, source: Source, settings: AppSettings) -> None:
        super().__init__(settings)
        self.feed = Feed(source, settings.history)
        self.scene = Scene(self.feed, self.palette, self.terminal)
        self.scene.recording = settings.recording
        self.scene.listening = settings.listening
        if (history := settings.history) is not None:
            self.scene.lab.hear = lambda: what_ran(history)
        self._first_commands = settings.first_commands
        self._syllabus = settings.syllabus

    def get_default_screen(self) -> Screen[None]:
        self.live = LiveScreen(
            self.scene, self.themes, self.use_theme, self.restart_engine, self.pictures_folder, self.keys
        )
        return self.live

    def on_mount(self) -> None:
        for warning in self.warnings:
            self.live.say(warning, "warning")
        for command in self._first_commands:
            self.live.send(command)
        if self._syllabus is not None:
            course = Course(self._syllabus, EngineDesk(self.live))
            self.scene.course, self.feed.on_batch, self.feed.past_is_own = course, course.take, True
            self.call_after_refresh(self._open_course, self._syllabus, course)

    def _open_course(self, syllabus: Syllabus, course: Course) -> None:
        """Open the lesson that was named, or the list to choose from."""
        lesson = syllabus.library.find(syllabus.first)
        if lesson is not None:
            course.open(lesson, 0 if syllabus.anew else None)
        else:
            self.live.action_do("lessons")
        self.live.redraw()

    def tick(self) -> None:
        """Between frames the view stays what is on the screen, and on a slow link the grid draws the cursor's rows:
        a key's answer is what the key changed, and no news with it."""
        if self.scene.recording is not None and (why := self.scene.recording.take_end()):
            self.live.say(why, "warning")
        if self.due():
            self.scene.frame_bytes = self.frame_bytes
            news = self.feed.poll()
            if self.scene.course is not None:
                self.scene.course.tick()
            self.live.tick(news)
            if self.scene.frame_bytes is not None:
                self.scene.frame_bytes = 0

    def action_save_picture(self) -> None:
        self.live.save_picture()

    def use_theme(self, name: str) -> None:
        self.live.look_again(self.look_for(name))

    def restart_engine(self) -> None:
        self.feed.source.restart()
        self.feed.begin_again()
        if self.scene.course is not None:
            self.scene.course.engine_restarted()
        self.live.redraw()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every action, for the palette."""
        for action in self.live.actions:
            words = f"{action.help}  {key_words(action.keys)}"
            yield SystemCommand(action.title, words, lambda name=action.name: self.live.action_do(name))
