"""Where a course meets the app: the running engine's view, commands to it, another engine in its place."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from kvtop.app.screens.live import LiveScreen
from kvtop.engine.control import AnyCommand
from kvtop.settings import EngineSettings
from kvtop.view.pool_view import PoolView


@runtime_checkable
class Replaces(Protocol):
    """A source that can start another engine in place of the one it has."""

    def replace(self, settings: EngineSettings) -> None: ...


class EngineDesk:
    """The Desk of a course (kvtop.lessons.course) over the live screen's feed."""

    def __init__(self, live: LiveScreen) -> None:
        self._live = live

    @property
    def view(self) -> PoolView:
        return self._live.scene.feed.live

    def send(self, command: AnyCommand) -> None:
        self._live.send(command)

    def begin(self, settings: EngineSettings) -> None:
        feed = self._live.scene.feed
        if not isinstance(feed.source, Replaces):
            raise TypeError("lessons need a source with an engine of its own")
        feed.source.replace(settings)
        feed.begin_again()
        self._live.look_at_nothing()

    def say(self, words: str) -> None:
        self._live.say(words, "warning")
