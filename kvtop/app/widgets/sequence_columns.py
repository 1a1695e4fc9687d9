"""Which columns the sequence table has room for, and their headings."""

from __future__ import annotations

from kvtop.app.lines import Line, Span, fitted
from kvtop.app.scene import Scene
from kvtop.view.clean import fit


class Columns:
    """Which columns a table of some width has room for, and how wide the names are."""

    def __init__(self, name: int, bar: int, progress: bool, preemptions: bool) -> None:
        self.name = name
        self.bar = bar
        self.progress = progress
        self.preemptions = preemptions

    @classmethod
    def for_width(cls, width: int, longest_name: int) -> Columns:
        name = max(7, min(longest_name, 24, width - 32))
        left = width - (2 + name + 2 + 12 + 7 + 5 + 4)
        bar = max(0, min(10, left)) if left >= 4 else 0
        left -= bar
        progress = left >= 13
        return cls(name, bar, progress, left - 13 * progress >= 5)

    @property
    def before_reason(self) -> int:
        return 2 + self.name + 2 + 12

    def heading(self, scene: Scene, width: int) -> Line:
        named = scene.palette.named

        def word(text: str, key: str) -> Span:
            return text, named.accent if scene.sort == key else named.muted

        spans: list[Span] = [
            ("   ", named.muted),
            word(fit("request", self.name) + " ", "name"),
            word(fit("  state", 12), "admitted"),
            word("   tok ", "tokens"),
            word(" blk ", "blocks"),
            word(" " * self.bar, "blocks"),
            word("  sh", "shared"),
        ]
        if self.progress:
            spans.append(("   made/most ", named.muted))
        if self.preemptions:
            spans.append((" out ", named.muted))
        return fitted(spans, width, named.text)
