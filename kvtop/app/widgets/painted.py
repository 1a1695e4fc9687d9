"""Drawings of the live screen: their scene is the one of an engine's view. How they are drawn stands in drawing.py."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style

from kvtop.app.lines import Span
from kvtop.app.marks import panel_for
from kvtop.app.scene import Scene
from kvtop.app.widgets.drawing import Drawing, FramedDrawing


class Painted(Drawing):
    """``scene`` is handed to every panel, so that none reaches for the app."""

    scene: Scene

    def __init__(self, scene: Scene, id: str | None = None) -> None:
        super().__init__(scene, id)


class Framed(FramedDrawing, Painted):
    """A panel of the live screen with a frame of its own, marked when a lesson points at it."""

    @property
    def frame(self) -> Style:
        return self.scene.palette.named.warning if self._watched else super().frame

    def heading(self) -> Sequence[Span]:
        mark: list[Span] = [("◉ ", self.scene.palette.named.warning)] if self._watched else []
        return [*mark, *self.title()]

    @property
    def _watched(self) -> bool:
        return panel_for(self.scene.watch) == self.id
