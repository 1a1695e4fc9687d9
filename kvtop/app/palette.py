"""A theme on a terminal: the Rich styles that everything on the screen is drawn with.

The one place where theme and colour depth meet. Widgets name what a thing *is* ("muted", "bad", the cell of owner 4);
they get a style that fits 16 million, 256, 16 or no colours. Without colours, bold, dim, reverse and underline carry
the difference, and every cell shows its owner's glyph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rich.color import Color
from rich.style import Style

from kvtop.app.theme_files import Theme
from kvtop.view.colours import Depth, Rgb, contrast, mix, nearest_256
from kvtop.view.owner_slots import NO_SLOT, glyph

FULL = 7
"""The fill level of a full block; a partly filled one has 1 to 6, a reserved one that is empty 0."""

_ANSI = {
    "muted": 8, "faint": 8, "border": 8, "focus": 12, "accent": 12, "good": 2, "warning": 3, "bad": 9,
    "active": 4, "cached": 6, "free_mark": 8,
}  # fmt: skip
"""What the named colours become on sixteen colours; all others are the terminal's own."""


class Cell(NamedTuple):
    """How one block, or one group of blocks, is to look."""

    state: int
    """FREE, CACHED or ACTIVE."""
    slot: int = -1
    """The owner's colour and glyph, -1 for nobody."""
    fill: int = FULL
    shared: bool = False
    changed: bool = False
    dimmed: bool = False
    cursor: bool = False


FREE, CACHED, ACTIVE = range(3)


@dataclass(frozen=True, slots=True)
class NamedStyles:
    text: Style
    strong: Style
    muted: Style
    faint: Style
    accent: Style
    title: Style
    good: Style
    warning: Style
    bad: Style
    border: Style
    focus: Style
    badge: Style
    """A word that must be seen, on the colour of a warning."""
    alarm: Style
    """The same for a failure."""


class Palette:
    """Styles for one theme at one depth. Build a new one when either changes."""

    def __init__(self, theme: Theme, depth: Depth) -> None:
        self.theme = theme
        self.depth = depth
        self._cells: dict[Cell, Style] = {}
        self._tones: dict[Cell, Style] = {}
        self._selected: dict[Style, Style] = {}
        self._inks: dict[int, Style] = {}
        self._pairs: dict[tuple[str, str], Style] = {}
        self.named = NamedStyles(
            text=self.style("text"),
            strong=self.style("text", bold=True),
            muted=self.style("muted", dim=depth == Depth.NONE),
            faint=self.style("faint", dim=depth == Depth.NONE),
            accent=self.style("accent", bold=depth == Depth.NONE),
            title=self.style("accent", bold=True),
            good=self.style("good"),
            warning=self.style("warning", bold=depth == Depth.NONE),
            bad=self.style("bad", bold=True),
            border=self.style("border", dim=depth == Depth.NONE),
            focus=self.style("focus"),
            badge=self._badge("warning"),
            alarm=self._badge("bad"),
        )

    # --- by name --------------------------------------------------------------------------------------------------

    def style_of(self, ink: str, paper: str) -> Style:
        """The style of two named colours, the same object each time."""
        found = self._pairs.get((ink, paper))
        if found is None:
            found = self._pairs[ink, paper] = self.style(ink, paper)
        return found

    def style(self, ink: str, paper: str = "background", bold: bool = False, dim: bool = False) -> Style:
        """A style from two named colours of the theme."""
        return Style(
            color=self._named(ink), bgcolor=self._named(paper), bold=bold or None, dim=(dim and not bold) or None
        )

    def tinted(self, ink: str, ink_share: float, paper: str, paper_share: float) -> Style:
        """A style from two named colours, each laid over the background by its share; on sixteen colours the ink
        alone."""
        if self.depth <= Depth.ANSI:
            return Style(color=self._named(ink))
        below = self.theme.colors.background
        return Style(
            color=self._rgb(mix(below, getattr(self.theme.colors, ink), ink_share)),
            bgcolor=self._rgb(mix(below, getattr(self.theme.colors, paper), paper_share)),
        )

    def _named(self, name: str) -> Color | None:
        if self.depth == Depth.NONE:
            return None
        if self.depth == Depth.ANSI:
            return Color.from_ansi(_ANSI[name]) if name in _ANSI else Color.default()
        return self._rgb(getattr(self.theme.colors, name))

    def _rgb(self, colour: Rgb) -> Color:
        if self.depth == Depth.PALETTE:
            return Color.from_ansi(nearest_256(colour))
        return Color.from_rgb(*colour)

    def _badge(self, name: str) -> Style:
        if self.depth <= Depth.ANSI:
            return Style(reverse=True, bold=True, color=self._named(name))
        colours = self.theme.colors
        paper = getattr(colours, name)
        return Style(
            color=self._rgb(_ink_on(paper, colours.background, colours.text)), bgcolor=self._rgb(paper), bold=True
        )

    def selected(self, style: Style) -> Style:
        """The same style on the background of the selected row; what has a background of its own keeps it."""
        found = self._selected.get(style)
        if found is None:
            if self.depth <= Depth.ANSI:
                extra = Style(reverse=True)
            else:
                extra = Style(bgcolor=self._named("raised")) if style.bgcolor == self.named.text.bgcolor else Style()
            found = self._selected[style] = style + extra
        return found

    # --- owners and cells -----------------------------------------------------------------------------------------

    def owner_ink(self, slot: int) -> Style:
        """Text in an owner's colour: its name, its share of a bar."""
        if slot < 0:
            return self.named.muted
        if self.depth == Depth.NONE:
            return self.named.strong
        found = self._inks.get(slot)
        if found is None:
            paper = self._named("background")
            found = self._inks[slot] = Style(color=self._owner_color(slot), bgcolor=paper, bold=True)
        return found

    def owner_chip(self, slot: int) -> Style:
        """The owner's glyph as it looks in the grid, on a full block of its own."""
        return self.cell(Cell(ACTIVE, slot)) if slot >= 0 else self.named.muted

    def letter(self, slot: int, held: int) -> tuple[str, Style]:
        """The owner's letter beside its name: as on its blocks where it holds some, without their ground where it was
        preempted."""
        if held:
            return glyph(slot), self.owner_chip(slot)
        return (glyph(slot), self.owner_ink(slot)) if slot != NO_SLOT else (" ", self.named.muted)

    def cell(self, cell: Cell) -> Style:
        """The style of a grid cell."""
        found = self._cells.get(cell)
        if found is None:
            if self.depth == Depth.NONE:
                found = _plain_cell(cell)
            elif self.depth == Depth.ANSI:
                found = self._ansi_cell(cell)
            else:
                found = self._colour_cell(cell)
            self._cells[cell] = found
        return found

    def striped(self, style: Style) -> Style:
        """A little nearer to the background, so that numbers in neighbouring cells can be told apart."""
        if self.depth <= Depth.ANSI or style.bgcolor is None:
            return style + Style(underline=True)
        r, g, b = style.bgcolor.get_truecolor()
        return style + Style(bgcolor=self._rgb(mix(self.theme.colors.background, (r, g, b), 0.75)))

    def tone(self, cell: Cell) -> Style:
        """The style of a grid cell that carries a tone, 0 to 7, in place of an owner."""
        found = self._tones.get(cell)
        if found is None:
            found = self._tones[cell] = self._tone_cell(cell)
        return found

    def _tone_cell(self, cell: Cell) -> Style:
        if self.depth <= Depth.ANSI or cell.slot < 0:
            return self.cell(cell._replace(slot=-1 if cell.slot < 0 else 0, shared=False))
        colours, shares = self.theme.colors, self.theme.shares
        paper = mix(colours.free, colours.focus, 0.14 + 0.86 * cell.slot / 7)
        if cell.state == CACHED:
            paper = mix(colours.free, paper, 0.45)
        ink = mix(_ink_on(paper, (8, 10, 14), (255, 255, 255)), paper, 0.25)
        if cell.dimmed:
            paper, ink = (mix(colours.background, colour, shares.dimmed) for colour in (paper, ink))
        if cell.cursor:
            paper, ink = colours.cursor, colours.background
        return Style(color=self._rgb(ink), bgcolor=self._rgb(paper), bold=cell.cursor or None)

    def owner_rgb(self, slot: int) -> Rgb:
        """The owner's colour; more owners than colours go round again."""
        owners = self.theme.owners
        colours = owners.colors_256 if self.depth == Depth.PALETTE else owners.colors
        return colours[slot % len(colours)]

    def _owner_color(self, slot: int) -> Color:
        if self.depth == Depth.ANSI:
            colours = self.theme.owners.colors_16
            return Color.from_ansi(colours[slot % len(colours)])
        return self._rgb(self.owner_rgb(slot))

    def _colour_cell(self, cell: Cell) -> Style:
        colours, shares = self.theme.colors, self.theme.shares
        paper, ink = colours.free, colours.free_mark
        if cell.state != FREE and cell.slot >= 0:
            owner = self.owner_rgb(cell.slot)
            if cell.state == CACHED:
                paper = mix(colours.background, owner, shares.cached)
                ink = mix(colours.background, owner, 0.5)
            elif cell.fill < FULL:
                paper = mix(colours.background, owner, shares.partial + (shares.full - shares.partial) * cell.fill / 10)
                ink = mix(owner, colours.text, 0.4)
            else:
                paper = mix(colours.background, owner, shares.full)
                ink = mix(_ink_on(paper, (8, 10, 14), (255, 255, 255)), paper, 0.25)
        elif cell.state != FREE:
            paper, ink = mix(colours.free, colours.muted, 0.35), colours.text
        if cell.shared:
            ink = _ink_on(paper, (0, 0, 0), (255, 255, 255))
        if cell.dimmed:
            paper, ink = (mix(colours.background, colour, shares.dimmed) for colour in (paper, ink))
        if cell.changed and not cell.dimmed:  # nothing outshines the selection
            paper = mix(paper, colours.changed, shares.changed)
            ink = _ink_on(paper, (0, 0, 0), (255, 255, 255))
        if cell.cursor:
            paper, ink = colours.cursor, colours.background
        return Style(
            color=self._rgb(ink),
            bgcolor=self._rgb(paper),
            bold=cell.shared or (cell.changed and not cell.dimmed) or cell.cursor or None,
            underline=cell.shared or None,
        )

    def _ansi_cell(self, cell: Cell) -> Style:
        if cell.cursor:
            return Style(color=Color.from_ansi(0), bgcolor=Color.from_ansi(15), bold=True)
        if cell.state == FREE or cell.slot < 0:
            return Style(color=Color.from_ansi(8), bold=cell.changed or None)
        owner = self._owner_color(cell.slot)
        underline, bold = cell.shared or None, (cell.changed and not cell.dimmed) or None
        if cell.state == CACHED:
            return Style(color=owner, dim=True, underline=underline, bold=bold)
        if cell.dimmed:
            return Style(color=owner, underline=underline)
        if cell.fill < FULL:
            return Style(color=owner, bold=True, underline=underline)
        return Style(color=Color.from_ansi(0), bgcolor=owner, underline=underline, bold=bold)


def _plain_cell(cell: Cell) -> Style:
    if cell.cursor:
        return Style(bold=True, underline=True, blink=True)
    if cell.state == ACTIVE and not cell.dimmed:
        return Style(reverse=cell.fill == FULL or None, bold=True, underline=cell.shared or None)
    if cell.state == ACTIVE:
        return Style(underline=cell.shared or None)
    return Style(dim=not cell.changed or None, underline=cell.shared or None)


def _ink_on(paper: Rgb, dark: Rgb, light: Rgb) -> Rgb:
    return max(dark, light, key=lambda ink: contrast(paper, ink))
