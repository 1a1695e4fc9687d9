"""What requests look like: how long prompts and answers are, why answers end, the largest there was."""

from __future__ import annotations

from collections.abc import Sequence

from kvtop.app.lines import Line, Span, fitted
from kvtop.app.watch.scene import WatchScene
from kvtop.app.widgets.drawing import FramedDrawing
from kvtop.attach.exposition import Reading
from kvtop.view import fleet_words as words
from kvtop.view.server_facts import SHAPES, finish_shares, largest_request, max_model_len, shapes
from kvtop.view.words import UNKNOWN

BAR = 12


class ShapePanel(FramedDrawing):
    scene: WatchScene

    def title(self) -> Sequence[Span]:
        return [("requests", self.scene.palette.named.title)]

    def content(self, width: int, height: int) -> Sequence[Line]:
        named = self.scene.palette.named
        history = self.scene.history(self.scene.place)
        if history is None or history.last is None:
            return [((f" nothing is told yet {UNKNOWN}", named.muted),)]
        ink = named.faint if self.scene.row.is_stale else named.text
        lines = [fitted([(f" {'tokens':<18}{'p50':>8}{'p99':>8}{'largest':>9}", named.muted)], width, self.blank)]
        for shape in shapes(self.scene.row, history.last):
            figures = f"{words.about_tokens(shape.p50):>8}{words.about_tokens(shape.p99):>8}"
            figures += f"{words.bound_in_tokens(shape.largest):>9}"
            lines.append(fitted([(f" {SHAPES[shape.name]:<18}", named.muted), (figures, ink)], width, self.blank))
        lines.append(self._longest(history.last))
        lines.append((("", named.text),))
        lines += self._ends(width)
        return lines

    def _longest(self, reading: Reading) -> Line:
        """No request was longer, and how much longer one may be."""
        named = self.scene.palette.named
        longest, limit = largest_request(reading), max_model_len(reading)
        return (
            (" largest request ≤ ", named.muted),
            (words.tokens(longest), named.text),
            (" of max_model_len ", named.muted),
            (words.number(limit), named.text),
        )

    def _ends(self, width: int) -> list[Line]:
        palette = self.scene.palette
        named, told = palette.named, finish_shares(self.scene.row.finished)
        if not told:
            return [((f" no request has ended yet {UNKNOWN}", named.muted),)]
        lines: list[Line] = [((" ended, since start", named.muted),)]
        for reason, count, share in told:
            full = max(1, round(share * BAR))
            bad = reason in ("abort", "error")
            lines.append(
                fitted(
                    [
                        (f"   {reason:<12}", named.text),
                        ("■" * full, named.warning if bad else palette.style_of("active", "background")),
                        ("·" * (BAR - full), named.faint),
                        (f"{count:>9,.0f}{share:>6.0%}", named.text),
                    ],
                    width,
                    self.blank,
                )
            )
        return lines
