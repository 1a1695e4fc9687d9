"""One request's life: what it went through, how many blocks it held meanwhile, and each stretch with its times.

Bar and curve run over the same steps, so that a freeze stands above the blocks it cost. From ``kvtop.view.life``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.style import Style

from kvtop.app.lines import Line, Span, fitted, wrapped
from kvtop.app.widgets.painted import Framed
from kvtop.app.widgets.request_list import chosen
from kvtop.view.life import Column, Phase, columns_of
from kvtop.view.life import Span as Stretch
from kvtop.view.request_rows import RequestRow, request_rows
from kvtop.view.words import UNKNOWN, count, duration

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_MARKS: dict[Phase, str] = {
    "waits": "‖", "prefill": "▷", "decode": "━", "preempted": "✕", "swapped": "⇄", "recompute": "↻",
}  # fmt: skip
_MOST_ROWS = 8
"""Of the curve of blocks."""


class LifePanel(Framed):
    @property
    def moves_with_time(self) -> bool:
        return True

    def _row(self) -> RequestRow | None:
        return chosen(self.scene, request_rows(self.scene.view, self.scene.now_s))

    def title(self) -> Sequence[Span]:
        named, row = self.scene.palette.named, self._row()
        if row is None:
            return [("life", named.title)]
        slot = self.scene.view.slots.slot_of(row.seq)
        return [("life of ", named.title), (row.name, self.scene.palette.owner_ink(slot) if row.seq else named.strong)]

    def figures(self) -> Sequence[Span]:
        named, row = self.scene.palette.named, self._row()
        if row is None:
            return ()
        frozen_s = row.frozen_s
        if frozen_s is None:
            return [("never frozen", named.muted)]
        return [(f"frozen {duration(frozen_s)}", named.warning)]

    def content(self, width: int, height: int) -> Sequence[Line]:
        named, row = self.scene.palette.named, self._row()
        if row is None:
            return [((" choose a request: ↑ ↓", named.muted),)]
        if not row.life.stretches:
            return self._told(row, width)
        spans = row.spans
        columns = columns_of(row.life, row.end_step, width - 2)
        told = self._told(row, width)
        rows = max(2, min(_MOST_ROWS, height - 4 - len(told) - min(len(spans), 6)))
        caption = f" blocks it held, {row.life.most_blocks:,} at most"
        lines: list[Line] = [self._bar(columns), ((caption, named.muted),)]
        lines += [*self._curve(columns, rows, row.life.most_blocks), self._axis(row, len(columns))]
        stretches = [self._stretch(span, width) for span in spans]
        room = max(1, height - len(lines) - len(told))
        if len(stretches) > room:
            hidden = len(stretches) - room + 1
            stretches = [((f"   … {hidden} before these", named.faint),), *stretches[hidden:]]
        return [*lines, *stretches, *told]

    def _style(self, phase: Phase) -> Style:
        named = self.scene.palette.named
        return {"waits": named.muted, "prefill": named.accent, "decode": named.good}.get(phase, named.bad)

    def _bar(self, columns: Sequence[Column]) -> Line:
        spans: list[Span] = [(" ", self.blank)]
        for phase, group in groupby(column.phase for column in columns):
            spans.append((_MARKS[phase] * len(list(group)), self._style(phase)))
        return tuple(spans)

    def _curve(self, columns: Sequence[Column], rows: int, most: int) -> list[Line]:
        """Blocks held, ``rows`` high; ``most`` fills it."""
        style = self.scene.palette.style_of("active", "background")
        scale = rows * 8 / max(1, most)
        eighths = [max(1, round(column.blocks * scale)) if column.blocks else 0 for column in columns]
        return [
            ((" ", self.blank), ("".join(_EIGHTHS[max(0, min(8, level - row * 8))] for level in eighths), style))
            for row in range(rows - 1, -1, -1)
        ]

    def _axis(self, row: RequestRow, columns: int) -> Line:
        begin = f"step {row.life.stretches[0].since_step:,}"
        end = f"{row.end_step:,}" + (" now" if row.seq else "")
        gap = max(2, columns - len(begin) - len(end))
        return ((f" {begin}{' ' * gap}{end}", self.scene.palette.named.faint),)

    def _stretch(self, span: Stretch, width: int) -> Line:
        named = self.scene.palette.named
        style = self._style(span.phase)
        begin = f"from step {span.since_step:<8,}" if width >= 54 else ""
        return (
            (f" {_MARKS[span.phase]} ", style),
            (f"{span.phase:<11}", style),
            (begin, named.muted),
            (f"{count(span.steps, 'step'):>12}", named.text),
            (f"{duration(span.seconds):>12}", named.text),
        )

    def _told(self, row: RequestRow, width: int) -> list[Line]:
        named = self.scene.palette.named
        pause = duration(row.longest_gap_s) if row.longest_gap_s else UNKNOWN
        words = (
            f"first token after {duration(row.first_token_after_s)}, longest pause {pause}, "
            f"{row.cached_tokens:,} prompt tokens from the cache, {row.recomputed_tokens:,} computed twice"
            + ("; its beginning is not known" if row.life.is_cut else "")
        )
        if row.state == "rejected":
            words = row.text
        return [
            fitted(((" ", self.blank), *line), width, self.blank) for line in wrapped(words, named.muted, width - 2)
        ]
