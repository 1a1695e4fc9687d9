"""Widgets that draw their own lines: compare with the last frame, make strips for what differs, refresh those rows.

The one idea: Textual's compositor is handed ready strips, so its styles cache, its CSS box and its colour filters are
out of the way. A frame in which nothing changed costs a comparison and writes nothing to the terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from kvtop.app.lines import Line, Span, fitted, line_width, strip_of
from kvtop.app.palette import Palette


class Scenery(Protocol):
    """What is drawn from; the one thing every drawing needs of it is how it looks."""

    palette: Palette


class Drawing(Widget):
    """Subclasses say what the lines are; ``redraw`` is called once a frame and after anything that may change them."""

    ALLOW_SELECT = False

    def __init__(self, scene: Scenery, id: str | None = None) -> None:
        super().__init__(id=id)
        self.scene = scene
        self._lines: list[Line] = []
        self._strips: list[Strip] = []
        self._drawn_size = Size(0, 0)
        self._drawn_state: object = None

    def lines(self, width: int, height: int) -> Sequence[Line]:
        """At most ``height`` lines, each exactly ``width`` cells wide."""
        return ()

    @property
    def moves_with_time(self) -> bool:
        """Its lines change though no news came."""
        return False

    def state(self) -> object:
        """What the lines depend on, where that is quickly said: while it is equal nothing is drawn. None: unknown."""
        return None

    def redraw(self) -> None:
        """Draw again what differs from the last frame."""
        size = self.size
        width, height = size
        if not width or not height:
            return
        state = self.state()
        if state is not None and (state, size, self.has_focus) == self._drawn_state:
            return
        self._drawn_state = (state, size, self.has_focus)
        if self._drawn_size != size:
            self._lines, self._strips = [], []
            self._drawn_size = size
        blank = self.blank
        wanted = list(self.lines(width, height)[:height])
        wanted += [((" " * width, blank),)] * (height - len(wanted))
        before = self._lines
        changed = [y for y, line in enumerate(wanted) if y >= len(before) or before[y] != line]
        if not changed:
            return
        if len(self._strips) != height:
            self._strips = [Strip.blank(width, blank)] * height
        for y in changed:
            self._strips[y] = strip_of(wanted[y], width)
        self._lines = wanted
        self.refresh(*(Region(0, y, width, 1) for y in changed) if 2 * len(changed) < height else ())

    def forget(self) -> None:
        """The look of everything may have changed (a new theme): draw all of it again."""
        self._lines, self._strips, self._drawn_state = [], [], None
        self.redraw()

    @property
    def blank(self) -> Style:
        return self.scene.palette.named.text

    def render_lines(self, crop: Region) -> list[Strip]:
        if self._drawn_size != self.size:
            self.redraw()
        strips = self._strips[crop.y : crop.bottom]
        strips += [Strip.blank(self.size.width, self.blank)] * (crop.height - len(strips))
        if crop.x == 0 and crop.width == self.size.width:
            return strips
        return [strip.crop(crop.x, crop.right) for strip in strips]

    def on_resize(self, event: events.Resize) -> None:
        self.redraw()


class FramedDrawing(Drawing):
    """A panel with a frame of its own: a title and figures in the top line, a note in the bottom one."""

    DEFAULT_CSS = "FramedDrawing { height: 1fr; }"

    def title(self) -> Sequence[Span]:
        """What stands at the left end of the top line."""
        return ()

    def heading(self) -> Sequence[Span]:
        """The title, with what may stand before it."""
        return self.title()

    def figures(self) -> Sequence[Span]:
        """What stands at the right end of the top line."""
        return ()

    def note(self) -> Sequence[Span]:
        """What stands in the bottom line."""
        return ()

    def content(self, width: int, height: int) -> Sequence[Line]:
        """The lines inside the frame."""
        return ()

    @property
    def frame(self) -> Style:
        named = self.scene.palette.named
        return named.focus if self.has_focus else named.border

    def lines(self, width: int, height: int) -> Sequence[Line]:
        frame = self.frame
        if width < 6 or height < 3:
            return [fitted(line, width, self.blank) for line in self.content(width, height)]
        inner = [fitted(line, width - 2, self.blank) for line in self.content(width - 2, height - 2)[: height - 2]]
        inner += [((" " * (width - 2), self.blank),)] * (height - 2 - len(inner))
        return (
            self._edge("╭", "╮", self.heading(), self.figures(), width),
            *((("│", frame), *line, ("│", frame)) for line in inner),
            self._edge("╰", "╯", self.note(), (), width),
        )

    def _edge(self, start: str, end: str, left: Sequence[Span], right: Sequence[Span], width: int) -> Line:
        """One horizontal edge with words set into it: ``╭─ pool ──── 1,024 ─╮``."""
        frame = self.frame
        room = width - 6
        if left:
            left = ((" ", frame), *fitted_to(left, room, self.blank), (" ", frame))
        if right:
            right = ((" ", frame), *right, (" ", frame))
            if line_width(left) + line_width(right) > width - 4:
                right = ()
        rule = width - 4 - line_width(left) - line_width(right)
        return ((start + "─", frame), *left, ("─" * rule, frame), *right, ("─" + end, frame))

    def on_focus(self) -> None:
        self.redraw()

    def on_blur(self) -> None:
        self.redraw()


def fitted_to(line: Sequence[Span], cells: int, blank: Style) -> Sequence[Span]:
    """``line`` as it is, or cut to ``cells``."""
    return line if line_width(line) <= cells else fitted(line, cells, blank)
