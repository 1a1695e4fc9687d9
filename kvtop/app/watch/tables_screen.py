"""The true tables of a watched server: the live screen over its exporter's stream. ``m`` and ``esc`` lead back.

The server is watched: requests can be sent to its endpoint and those sent from here aborted; it can be paused and
stepped where it was started so (KVTOP_CONTROL=1); other commands to its scheduler are refused in words. Steps can be
looked at again as far as they were recorded here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from textual.binding import Binding

from kvtop.app.destination import Destination
from kvtop.app.feed import Feed
from kvtop.app.palette import Palette
from kvtop.app.recording import RecordingSwitch
from kvtop.app.scene import Scene
from kvtop.app.screens.live import LiveScreen
from kvtop.app.terminal import Terminal
from kvtop.app.watch.screen import Setting
from kvtop.attach.fleet import Place
from kvtop.sources.exported import ExportedSource
from kvtop.sources.history import History
from kvtop.sources.recorder import Recorder
from kvtop.sources.watched import Traffic, WatchedSource


class TablesScreen(LiveScreen):
    BINDINGS = [Binding("m", "leave", "metrics", show=False)]

    def __init__(self, scene: Scene, setting: Setting, restart: Callable[[], None], leave: Callable[[], None]) -> None:
        super().__init__(scene, setting.themes, setting.use_theme, restart, setting.pictures, setting.keys)
        self._leave = leave

    def action_leave(self) -> None:
        self._leave()

    def back_out(self) -> None:
        scene = self.scene
        pointed = any(it is not None for it in (scene.selected, scene.cursor, scene.zoom))
        chosen = scene.tab != "live" or scene.extras or scene.filter or scene.feed.in_past or pointed
        if scene.feed.live.info is None or not chosen:
            self._leave()
        else:
            super().back_out()


class Tables:
    """One rank's true tables: subscribed to from ``start`` to ``close``, drawn while ``screen`` is in front."""

    def __init__(
        self,
        place: Place,
        endpoint: str,
        traffic: Traffic,
        destination: Destination,
        palette: Palette,
        terminal: Terminal,
        setting: Setting,
        leave: Callable[[], None],
    ) -> None:
        self.place = place
        self.endpoint = endpoint
        history = History()
        recorder = Recorder([history])
        self.source = WatchedSource(ExportedSource(endpoint, recorder.add), traffic)
        self.feed = Feed(self.source, history)
        scene = Scene(self.feed, palette, terminal)
        scene.watched = "true tables"
        scene.recording = RecordingSwitch(recorder, Path.cwd())
        self._scene = scene
        self._setting = setting
        self._destination = destination
        self._leave = leave
        self.screen = self.new_screen()
        self._recorder = recorder
        self._news = True
        """Something arrived since the last frame."""
        self._asked_s = time.monotonic()
        self.comes_back = False
        """It was left for want of a word, and is to be shown once there is one."""

    def new_screen(self) -> TablesScreen:
        """A screen over what has been told so far: one that was left is gone."""
        self._asked_s = time.monotonic()
        self.screen = TablesScreen(self._scene, self._setting, self._begin_again, self._leave)
        self.screen.destination = self._destination
        return self.screen

    def start(self) -> None:
        self.source.start()

    def tick(self, due: bool, frame_bytes: int | None) -> None:
        """Take over the news, and draw when it is time to."""
        self._news = self.feed.poll() or self._news
        scene = self._scene
        if scene.recording is not None and (why := scene.recording.take_end()):
            self.screen.say(why, "warning")
        scene.frame_bytes = frame_bytes
        if due:
            self.screen.tick(self._news)
            self._news = False

    @property
    def wordless_s(self) -> float:
        """Seconds that somebody has looked at it, for as long as the exporter has said nothing; else 0."""
        return time.monotonic() - self._asked_s if self.source.age_s() is None else 0.0

    def close(self) -> None:
        self.source.close()
        self._recorder.close()

    def _begin_again(self) -> None:
        self.source.restart()
        self.feed.begin_again()
        self._asked_s = time.monotonic()
        self.screen.redraw()
