"""What the selected sequence was asked and what it says, as it comes; and that it stands still, while it does.

The text is untrusted and clean already (``SequenceView.text``); it is wrapped here and the end of it shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvtop.app.lines import Line, Span, wrapped
from kvtop.app.widgets.painted import Framed
from kvtop.view.sequence_view import SequenceView
from kvtop.view.sequence_words import state_of
from kvtop.view.words import count, duration, who

FROZEN_FROM_S = 1.0
"""A pause shorter than this is no freeze."""
UNTOLD_TOKENS = 8
"""So many tokens without any text are no character in the making."""


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
        still_s = row.frozen_seconds(self.scene.now_s, self.scene.view.pauses) if row.frozen else None
        if still_s is not None and still_s >= FROZEN_FROM_S:
            return [(f" stands still for {duration(still_s)} ", named.badge)]
        return [(f"{row.generated:,} of {count(row.max_tokens, 'token')}", named.muted)]

    def note(self) -> Sequence[Span]:
        row = self._row()
        if row is None:
            return ()
        words = [f"preempted {count(row.preemptions, 'time')}"] if row.preemptions else []
        pause_s = row.longest_gap_s(self.scene.now_s, self.scene.view.pauses)
        if pause_s >= FROZEN_FROM_S:
            words.append(f"longest pause {duration(pause_s)}")
        return [(" · ".join(words), self.scene.palette.named.muted)] if words else ()

    def content(self, width: int, height: int) -> Sequence[Line]:
        named, row = self.scene.palette.named, self._row()
        room = max(1, width - 2)
        if row is None:
            lines = wrapped(self._nobody(), named.muted, room)
            return [((" ", named.text), *line) for line in lines]
        asked = row.prompt or f"{row.prompt_tokens:,} prompt tokens, given as ids"
        lines = wrapped(f"asked: {asked}", named.muted, room)[:2]
        said = [line for part in row.text.split("\n") for line in wrapped(part, named.text, room)] if row.text else []
        lines += said[-max(1, height - len(lines)) :] or wrapped(_why_silent(row), named.muted, room)
        return [((" ", named.text), *line) for line in lines]

    def _nobody(self) -> str:
        """Why there is nothing to read along, and what would help."""
        view, selected = self.scene.view, self.scene.selected
        name = view.ended_names.get(selected or 0)
        over = next((ended for ended in reversed(view.ended) if ended.name == name), None)
        if over is not None:
            why = ", ".join(over.reasons)
            return f"{name} is over ({why}) with {count(over.generated, 'token')}: {over.text}"
        if name is not None:
            return f"{name} is over"
        if view.sequences:
            return "Select a sequence to read along: ↹ to the table, then ↑ ↓; or enter on a block."
        send = "." if self.scene.feed.tape is not None else ": i sends a request."
        return f"Nobody is here to read along with{send}"


def _why_silent(row: SequenceView) -> str:
    if row.generated >= UNTOLD_TOKENS:
        return f"{row.generated:,} tokens came without their text: it was asked from elsewhere, and is read there"
    return f"no answer yet: it {_does(row)}"


def _does(row: SequenceView) -> str:
    state = state_of(row)
    return {"waits": "waits", "decode": "is about to begin"}.get(state, f"is at {state}")
