"""Where the panels over watched servers stand, at any terminal size, and the widget that puts them there.

Wide and high enough: two columns. Narrower or lower: panels go, the least telling first; the first one always stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget

Arrange = Callable[[int, int], dict[str, Region]]
"""Width and height → panel name → region."""

TWO_COLUMNS_FROM = 100


def _edges(width: int, height: int, tabs: bool) -> tuple[dict[str, Region], Region]:
    """Headline, tabs and footer, and what is left between them."""
    head = 2 if height >= 10 else 1
    regions = {"headline": Region(0, 0, width, head), "footer": Region(0, height - 1, width, 1)}
    if tabs and height >= 14:
        regions["tabs"] = Region(0, head, width, 1)
        head += 1
    return regions, Region(0, head, width, max(1, height - head - 1))


def arrange_fleet(rows: int) -> Arrange:
    """The table takes the lines its ``rows`` need, up to two thirds where there are findings to tell."""

    def arrange(width: int, height: int) -> dict[str, Region]:
        if height < 5:
            return {"fleet": Region(0, 0, width, height)}
        regions, body = _edges(width, height, tabs=False)
        table = min(max(rows + 5, 8), body.height * 2 // 3)
        if body.height < 12:
            return regions | {"fleet": body}
        first, second = body.split_horizontal(table)
        return regions | {"fleet": first, "findings": second}

    return arrange


def arrange_server(tab: str) -> Arrange:
    """One server: figures beside charts on the first tab; a tree, or sentences, over the whole width on the others."""

    def arrange(width: int, height: int) -> dict[str, Region]:
        if height < 5:
            return {"latency" if tab == "metrics" else tab: Region(0, 0, width, height)}
        regions, body = _edges(width, height, tabs=True)
        if tab == "metrics":
            return regions | _metrics(body)
        if tab == "prefix" and body.height >= 16:
            first, second = body.split_horizontal(body.height - 7)
            return regions | {"prefix": first, "tiers": second}
        return regions | {tab: body}

    return arrange


def _metrics(body: Region) -> dict[str, Region]:
    if body.width >= TWO_COLUMNS_FROM and body.height >= 18:
        left, right = body.split_vertical(body.width * 11 // 20)
        latency, charts = left.split_horizontal(9)
        shapes, rest = right.split_horizontal(12)
        found = {"latency": latency, "shapes": shapes}
        if charts.height >= 15:
            usage, flow = charts.split_horizontal(charts.height // 2)
            found |= {"usage": usage, "flow": flow}
        else:
            found["usage"] = charts
        return found | {"capacity": rest}
    if body.height < 12:
        return {"latency": body}
    latency, rest = body.split_horizontal(9)
    if rest.height < 9:
        return {"latency": latency, "capacity": rest}
    capacity, rest = rest.split_horizontal(min(11, rest.height))
    if rest.height < 6:
        return {"latency": latency, "capacity": Region(0, capacity.y, body.width, body.bottom - capacity.y)}
    return {"latency": latency, "capacity": capacity, "usage": rest}


class _Placed(Layout):
    name = "placed"

    def __init__(self, arrange: Arrange) -> None:
        self.by = arrange

    def arrange(self, parent: Widget, children: Sequence[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        regions = self.by(size.width, size.height)
        return [
            WidgetPlacement(regions[child.id], NULL_OFFSET, NULL_SPACING, child)
            for child in children
            if child.id in regions
        ]


class Places(Widget):
    """Holds panels, places those that have a region at this size."""

    DEFAULT_CSS = "Places { width: 1fr; height: 1fr; }"

    def __init__(self, arrange: Arrange, *panels: Widget) -> None:
        super().__init__(*panels)
        self._placed = _Placed(arrange)

    @property
    def layout(self) -> Layout:
        return self._placed

    def use(self, arrange: Arrange) -> None:
        """Place them in another way, if it is one at this size."""
        before, self._placed.by = self._placed.by, arrange
        if before(*self.size) != arrange(*self.size):
            self.children[0].refresh(layout=True)  # a parent keeps its arrangement until a child asks for a new one

    def in_sight(self) -> list[str]:
        """Ids of the panels that have a place at this size."""
        regions = self._placed.by(*self.size)
        return [child.id for child in self.children if child.id in regions]
