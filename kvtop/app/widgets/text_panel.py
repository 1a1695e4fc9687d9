"""What the selected sequence was asked and what it says, as it comes; and that it stands still, while it does.

The text is untrusted and clean already (``SequenceView.text``); it is wrapped here and the end of it shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvtop.app.lines import Line, Span, wrapped
from kvtop.app.widgets.painted import Framed
from kvtop.view.sequence_view import SequenceView
from kvtop.view.words import duration, who

FROZEN_FROM_S = 1.0
"""A pause shorter than this is no freeze."""


class TextPanel(Framed):
    def _row(self) -> SequenceView | None:
        return self.scene.view.sequences.get(self.scene.selected or 0)

    @property
    def moves_with_time(self) -> bool:
        return True

    def title(self) -> Sequence[Span]:
        palette, view, row = self.scene.palette, self.scene.view, self._row()
        if row is None:
            return [("text", palette.named.title)]
        return [("text of ", palette.named.title), (who(view, row.seq), palette.owner_ink(view.slots.slot_of(row.seq)))]

    def figures(self) -> Sequence[Span]:
        named, row = self.scene.palette.named, self._row()
        if row is None:
            return ()
        still_s = row.frozen_seconds(self.scene.now_s) if row.frozen else None
        if still_s is not None and still_s >= FROZEN_FROM_S:
            return [(f" stands still for {duration(still_s)} ", named.badge)]
        return [(f"{row.generated:,} of {row.max_tokens:,} tokens", named.muted)]

    def note(self) -> Sequence[Span]:
        row = self._row()
        if row is None or row.longest_gap_s < FROZEN_FROM_S:
            return ()
        return [(f"longest pause {duration(row.longest_gap_s)}", self.scene.palette.named.muted)]

    def content(self, width: int, height: int) -> Sequence[Line]:
        named, row = self.scene.palette.named, self._row()
        if row is None:
            return [((" select a sequence to read along", named.muted),)]
        room = max(1, width - 2)
        lines = wrapped(row.prompt or f"{row.prompt_tokens:,} prompt tokens, given as ids", named.muted, room)[:2]
        said = [line for part in row.text.split("\n") for line in wrapped(part, named.text, room)]
        lines += said[-max(1, height - len(lines)) :]
        return [((" ", named.text), *line) for line in lines]
