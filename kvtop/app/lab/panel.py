"""The policy lab: the same traffic through several policies in lock step, each its own picture of the same pool.

It places two to four lanes and draws them with ``lane_lines.py``; what runs, and how fast, is the desk's. The lab moves
only while it is in sight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from rich.style import Style

from kvtop.app.actions import panel_bindings
from kvtop.app.lab.desk import AS_FAST_AS_IT_GOES, LabDesk
from kvtop.app.lab.ink import LabInk
from kvtop.app.lab.lane_lines import MOST_SLOTS_IN_A_ROW, LaneLines, Scale, scale_of
from kvtop.app.lines import Line, Part, Span, between, fitted, fitting, line_width
from kvtop.app.terminal import Terminal
from kvtop.app.widgets.drawing import FramedDrawing, Scenery
from kvtop.lab.pool_picture import CACHED, EXTERNAL, FREE, INTERNAL, LIVE, RESERVED

if TYPE_CHECKING:
    from kvtop.lab.lane import Lane

TWO_COLUMNS_FROM = 90
FRAMED_FROM = 6
"""Lines a lane must have for a frame of its own; below that a line of words parts it from the next."""
TALLEST_SLOTS_LANE = 12
_LEGEND = (
    (0, LIVE, "tokens", ""),
    (1, RESERVED, "reserved", " for tokens to come"),
    (2, INTERNAL, "internal", ": never filled"),
    (3, EXTERNAL, "external", ": free, but no hole fits"),
    (4, FREE, "free", ""),
    (5, CACHED, "cached", " for its prefix"),
)


class LabScenery(Scenery, Protocol):
    terminal: Terminal
    lab: LabDesk


class LabPanel(FramedDrawing, can_focus=True):
    BINDINGS = panel_bindings("lab")

    scene: LabScenery

    def __init__(self, scene: LabScenery, id: str) -> None:
        super().__init__(scene, id)
        self._ink = LabInk(scene.palette, scene.terminal.fine_marks)
        self._drawn: list[LaneLines] = []

    @property
    def moves_with_time(self) -> bool:
        return self.scene.lab.moves

    def tick(self) -> None:
        """A frame is due: let the lab run on."""
        self.scene.lab.open()
        self.scene.lab.tick()

    def forget(self) -> None:
        self._ink = LabInk(self.scene.palette, self.scene.terminal.fine_marks)
        self._drawn = []
        super().forget()

    def lines(self, width: int, height: int) -> Sequence[Line]:
        desk = self.scene.lab
        desk.open()
        assert desk.shown is not None
        lanes = desk.shown.lanes
        if len(self._drawn) != len(lanes):
            self._drawn = [LaneLines(self.scene.palette, self._ink) for _ in lanes]
        legend = [self._legend(width, any(lane.caching for lane in lanes))] if height >= 8 else []
        room = height - 1 - len(legend)
        return [self._head(width), *self._lanes(lanes, scale_of(lanes), width, room), *legend]

    # --- the line above -------------------------------------------------------------------------------------------

    def _head(self, width: int) -> Line:
        desk, named = self.scene.lab, self.scene.palette.named
        assert desk.shown is not None
        state = self._state()
        left = fitting(
            [
                Part(1, ((" lab  ", named.title),)),
                Part(0, ((desk.preset.title, named.strong),)),
                Part(3, ((f" · {desk.preset.about}", named.muted),)),
            ],
            max(10, width - max(36, line_width(state) + 1)),
        )
        return between(left, state, width, self.blank)

    def _state(self) -> Sequence[Span]:
        desk, named = self.scene.lab, self.scene.palette.named
        assert desk.shown is not None
        step: Span = (f"  step {desk.shown.step:,} ", named.strong)
        if desk.shown.ended:
            missed = desk.no_preemption_after
            found: list[Span] = [] if missed is None else [(f", nobody preempted after step {missed:,}", named.warning)]
            return [("■ all done", named.good), *found, step]
        if desk.winding:
            return [("▶▶ winding", named.accent), step]
        speed = (
            "as fast as it goes" if desk.steps_per_second == AS_FAST_AS_IT_GOES else f"{desk.steps_per_second:,.0f}/s"
        )
        if desk.running:
            return [(f"▶ {speed}", named.good), step]
        return [("‖ paused", named.warning), (f" ({speed})", named.muted), step]

    # --- lanes ----------------------------------------------------------------------------------------------------

    def _lanes(self, lanes: Sequence[Lane], scale: Scale, width: int, height: int) -> list[Line]:
        by_slot = scale.num_slots <= MOST_SLOTS_IN_A_ROW
        columns = 2 if width >= TWO_COLUMNS_FROM and len(lanes) > 1 and not by_slot else 1
        rows = -(-len(lanes) // columns)
        column_width = width // columns
        framed = height // rows >= FRAMED_FROM
        lines: list[Line] = []
        for row in range(rows):
            tall = height // rows + (row < height % rows)
            if by_slot:
                tall = min(tall, TALLEST_SLOTS_LANE)
            boxes = []
            for column in range(columns):
                at = row * columns + column
                wide = column_width if column < columns - 1 else width - column_width * (columns - 1)
                boxes.append(self._box(lanes, at, scale, wide, tall, framed))
            lines += [tuple(span for box in boxes for span in box[y]) for y in range(tall)]
        return lines

    def _box(self, lanes: Sequence[Lane], at: int, scale: Scale, width: int, height: int, framed: bool) -> list[Line]:
        blank = self.blank
        if at >= len(lanes) or height < 2:
            return [fitted((), width, blank)] * height
        lane, named = lanes[at], self.scene.palette.named
        ended = lane.ended
        title: list[Span] = [(lane.title, named.good if ended else named.title)]
        note: list[Span] = [("done", named.good)] if ended else [(lane.note, named.muted)] if lane.note else []
        if not framed:
            inner = self._drawn[at].lines(lane, scale, width, height - 1)
            return [between(title, note, width, blank), *inner]
        inner = self._drawn[at].lines(lane, scale, width - 2, height - 2)
        side: Span = ("│", named.border)
        return [
            self._edge("╭", "╮", title, note, width),
            *((side, *line, side) for line in inner),
            self._edge("╰", "╯", (), (), width),
        ]

    @property
    def frame(self) -> Style:
        return self.scene.palette.named.border

    def _legend(self, width: int, caching: bool) -> Line:
        named = self.scene.palette.named
        for with_meaning in (True, False):
            parts = [Part(0, ((" ", self.blank),))]
            for rank, kind, word, meaning in _LEGEND if caching else _LEGEND[:-1]:
                glyph, style = self._ink.sample(kind)
                words = word + meaning if with_meaning else word
                parts.append(Part(rank, ((glyph * 2, style), (f" {words}  ", named.muted))))
            if sum(len(text) for part in parts for text, _ in part.spans) <= width:
                break
        return fitted(fitting(parts, width), width, self.blank)
