"""What the panels draw from: the feed, the palette, and what a person has pointed at.

One object is handed to every panel, so that none reaches for the app. It holds choices, no figures; every figure comes
from ``feed.view`` at the moment of drawing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from kvtop.app.arrangement import Tab
from kvtop.app.feed import Feed
from kvtop.app.grid.shape import Zoom
from kvtop.app.grid.tones import Mode
from kvtop.app.lab.desk import LabDesk
from kvtop.app.palette import Palette
from kvtop.app.recording import RecordingSwitch
from kvtop.app.terminal import Terminal
from kvtop.lessons.course import Course
from kvtop.view.pool_view import PoolView

SortKey = Literal["admitted", "blocks", "tokens", "shared", "name"]
SORT_KEYS: tuple[SortKey, ...] = ("admitted", "blocks", "tokens", "shared", "name")


@dataclass(slots=True)
class Scene:
    feed: Feed
    palette: Palette
    terminal: Terminal
    clock: Callable[[], float] = time.time
    """Wall time in seconds, for the clock and for ages."""
    recording: RecordingSwitch | None = None
    """Begins and ends files; None: there is nothing to record."""
    listening: str = ""
    """Where clients can send requests to the engine; empty: nowhere."""
    watched: str = ""
    """The depth at which a server of somebody else's is seen here; empty: the engine is ours."""
    frame_bytes: int | None = None
    """How much one frame may write; None: no limit."""
    tab: Tab = "live"
    lab: LabDesk = field(default_factory=LabDesk)
    cursor: int | None = None
    """The block under the cursor."""
    selected: int | None = None
    """The sequence that is selected; its blocks are lit."""
    request: str = ""
    """The row chosen among the requests, by name: it may be one that is over."""
    mode: Mode = "owner"
    """What the grid's colours mean."""
    zoom: Zoom | None = None
    """The zoom somebody asked for; None: what fits."""
    sort: SortKey = "admitted"
    filter: str = ""
    """Shows sequences whose name, state or prompt holds this text."""
    all_events: bool = False
    """The log shows every event, and not only those in which something was decided."""
    decision: bool = True
    """While a step stands the decision path shows itself."""
    extras: tuple[str, ...] = ()
    """Panels that were asked for, the latest first: the selected sequence's block "table", its "text", "decision"."""
    predict: bool = False
    """A step's outcome stays hidden until somebody asks for it, so that a class can answer first."""
    until: str = "preempted"
    """The kind of event that ``>`` runs to."""
    course: Course | None = None
    """The lessons that are played here; None: this is no place for lessons."""

    @property
    def view(self) -> PoolView:
        return self.feed.view

    @property
    def stands(self) -> bool:
        """One step is shown and stays: the engine or the recording is paused, or the view was stepped back."""
        return self.feed.paused or self.feed.in_past

    @property
    def watch(self) -> str:
        """What a lesson points at (kvtop.app.marks); empty: nothing."""
        return self.course.watch if self.course is not None else ""

    @property
    def now_s(self) -> float:
        """The wall time the panels speak of: the present while the view is live, else the view's own."""
        return self.view.wall_s if self.feed.frozen else self.live_now_s

    @property
    def live_now_s(self) -> float:
        """The wall time of the engine itself, whatever the panels show: the present, or where the recording is."""
        live = self.feed.live
        return live.wall_s if self.feed.tape is not None else max(self.clock(), live.wall_s)
