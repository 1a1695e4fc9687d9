"""Drawings of the live screen: their scene is the one of an engine's view. How they are drawn stands in drawing.py."""

from __future__ import annotations

from kvtop.app.scene import Scene
from kvtop.app.widgets.drawing import Drawing, FramedDrawing


class Painted(Drawing):
    """``scene`` is handed to every panel, so that none reaches for the app."""

    scene: Scene

    def __init__(self, scene: Scene, id: str | None = None) -> None:
        super().__init__(scene, id)


class Framed(FramedDrawing, Painted):
    """A panel of the live screen with a frame of its own."""
