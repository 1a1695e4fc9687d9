"""The sequence table: who runs, who waits and for what, who holds how much.

Rows come from ``view.sequences`` at each frame, filtered and sorted here; the selected row is ``scene.selected``, so
it stays with its sequence when the order changes. Its own lines, no DataTable: a thousand rows cost what is in sight.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from textual import events
from textual.message import Message

from kvtop.app.actions import panel_bindings
from kvtop.app.lines import Line, Span, fitted
from kvtop.app.scene import SORT_KEYS, Scene
from kvtop.app.widgets.painted import Framed
from kvtop.app.widgets.sequence_columns import Columns
from kvtop.view.clean import fit
from kvtop.view.clean import width as cell_width
from kvtop.view.sequence_view import SequenceView
from kvtop.view.sequence_words import state_of, waits_briefly, waits_for
from kvtop.view.turns import head_of_queue, reading_order


class Sequences(Framed, can_focus=True):
    BINDINGS = panel_bindings("sequences")

    class Selected(Message):
        """A row was chosen, with the mouse or by moving onto it."""

        def __init__(self, seq: int) -> None:
            self.seq = seq
            super().__init__()

    def __init__(self, scene: Scene, id: str) -> None:
        super().__init__(scene, id)
        self.first_row = 0
        self._shown: list[SequenceView] = []
        self._pinned: SequenceView | None = None
        """The row under all others that stands there out of its order."""

    # --- which rows -----------------------------------------------------------------------------------------------

    def ordered(self) -> list[SequenceView]:
        """All rows, filtered and sorted; equals stand as they run and wait."""
        scene = self.scene
        wanted = scene.filter.lower()
        rows = [
            row
            for row in scene.view.sequences.values()
            if not wanted or wanted in f"{row.name} {state_of(row)} {row.prompt}".lower()
        ]
        rows.sort(key=reading_order)
        match scene.sort:
            case "name":
                rows.sort(key=lambda row: (row.name, row.index))
            case "tokens":
                rows.sort(key=lambda row: -row.tokens)
            case "shared":
                rows.sort(key=lambda row: -self.shared(row))
            case "blocks":
                rows.sort(key=lambda row: -len(row.table))
        return rows

    def shared(self, row: SequenceView) -> int:
        """How many of its blocks others hold too."""
        return int((self.scene.view.blocks.ref_counts[row.table] > 1).sum()) if row.table else 0

    def neighbour(self, step: int) -> int | None:
        """The sequence ``step`` rows below the selected one (above, when negative); the first when none is selected."""
        seqs = [row.seq for row in self.ordered()]
        if not seqs:
            return None
        if self.scene.selected not in seqs:
            return seqs[0]
        return seqs[max(0, min(len(seqs) - 1, seqs.index(self.scene.selected) + step))]

    # --- words in the frame ---------------------------------------------------------------------------------------

    def title(self) -> Sequence[Span]:
        named, view = self.scene.palette.named, self.scene.view
        counts = {status: len(view.with_status(status)) for status in ("running", "waiting", "swapped")}
        words: list[Span] = [("sequences", named.title)]
        if view.info is not None:
            words.append((f" {counts['running']} run", named.text))
            words.append((f" · {counts['waiting']} wait", named.warning if counts["waiting"] else named.muted))
            if counts["swapped"]:
                words.append((f" · {counts['swapped']} swapped", named.warning))
        return words

    def figures(self) -> Sequence[Span]:
        named = self.scene.palette.named
        if self.scene.filter:
            return [(f"/{self.scene.filter}", named.accent)]
        return [(f"by {'admission' if self.scene.sort == 'admitted' else self.scene.sort}", named.muted)]

    def note(self) -> Sequence[Span]:
        rows, seen = len(self._shown), max(0, self.size.height - 3)
        if rows <= seen:
            return ()
        in_order = seen - (self._pinned is not None)
        words = f"{self.first_row + 1}–{min(rows, self.first_row + in_order)} of {rows}"
        if self._pinned is not None:
            words += f" · ↳ head of the queue, {self._shown.index(self._pinned) + 1}"
        return [(words, self.scene.palette.named.muted)]

    # --- the table ------------------------------------------------------------------------------------------------

    def content(self, width: int, height: int) -> Sequence[Line]:
        self._shown = rows = self.ordered()
        named = self.scene.palette.named
        if not rows:
            words = "no sequence matches the filter" if self.scene.filter and self.scene.view.sequences else ""
            return [((f" {words}", named.muted),)]
        shown = max(1, height - 1)
        self._keep_selected_in_sight(shown)
        self._pinned = pinned = self._head_below(shown)
        if pinned is not None:
            shown -= 1
            self._keep_selected_in_sight(shown)
        most = max(len(row.table) for row in rows) or 1
        columns = Columns.for_width(width, max(len(row.name) for row in rows))
        lines = [columns.heading(self.scene, width)]
        for row in rows[self.first_row : self.first_row + shown]:
            line = fitted(self._row(row, columns, most, width), width, named.text)
            if row.seq == self.scene.selected:
                line = (("▌", named.focus), *line[1:])
                line = tuple((text, self.scene.palette.selected(style)) for text, style in line)
            lines.append(line)
        if pinned is None:
            return lines
        apart = fitted(self._row(pinned, columns, most, width), width, named.text)
        return [*lines, (("↳", named.accent), *apart[1:])]

    def _head_below(self, shown: int) -> SequenceView | None:
        """The head of the queue, when it lies below the rows in sight: who waits, and for what, must be seen."""
        head = head_of_queue(self.scene.view)
        below = self._shown[self.first_row + shown :] if shown >= 3 else []
        return next((row for row in below if row is head), None)

    def _row(self, row: SequenceView, columns: Columns, most: int, width: int) -> Line:
        palette, view = self.scene.palette, self.scene.view
        named = palette.named
        slot = view.slots.slot_of(row.seq)
        held = len(row.table)
        state, style = self._state(row)
        spans: list[Span] = [
            (" ", named.text),
            palette.letter(slot, held),
            (" " + fit(row.name, columns.name) + " ", named.strong if held else named.text),
            (fit(state, 12), style),
        ]
        if not held and row.status != "running":
            return (*spans, (self._reason(row, max(0, width - columns.before_reason)), named.muted))
        spans += [
            (f"{row.tokens:>6,} ", named.text),
            (f"{held:>4,} ", named.text),
        ]
        if columns.bar:
            full = max(1, round(held / most * columns.bar)) if held else 0
            spans += [("■" * full, palette.owner_ink(slot)), ("·" * (columns.bar - full), named.faint)]
        shared = self.shared(row)
        spans.append((f"{shared:>4}" if shared else "   ·", named.text if shared else named.faint))
        if columns.progress:
            spans.append((f"{row.generated:>7,}/{row.max_tokens:<5,}", named.muted))
        if columns.preemptions:
            spans.append((f" {'✕' + str(row.preemptions) if row.preemptions else '':<4}", named.warning))
        return tuple(spans)

    def _reason(self, row: SequenceView, room: int) -> str:
        """What it waits for, in as many words as there is room for."""
        words = waits_for(self.scene.view, row)
        return fit(words if cell_width(words) <= room else waits_briefly(self.scene.view, row), room)

    def _state(self, row: SequenceView) -> tuple[str, Style]:
        named = self.scene.palette.named
        state = state_of(row)
        style = {"decode": named.good, "prefill": named.accent, "waits": named.muted}.get(
            state.split()[0], named.warning
        )
        mark = {"decode": "▶", "prefill": "▷", "waits": "‖", "swapped": "⇄"}.get(state.split()[0], "✕")
        return f"{mark} {state}", style

    def _keep_selected_in_sight(self, shown: int) -> None:
        rows = self._shown
        at = next((i for i, row in enumerate(rows) if row.seq == self.scene.selected), None)
        if at is not None:
            self.first_row = min(max(self.first_row, at - shown + 1), at)
        self.first_row = max(0, min(self.first_row, len(rows) - shown))

    # --- the mouse ------------------------------------------------------------------------------------------------

    def on_mouse_down(self, event: events.MouseDown) -> None:
        row = self.first_row + event.y - 2
        if event.y == 1:
            keys = SORT_KEYS
            self.scene.sort = keys[(keys.index(self.scene.sort) + 1) % len(keys)]
            self.redraw()
        elif self._pinned is not None and event.y == self.size.height - 2:
            self.post_message(self.Selected(self._pinned.seq))
        elif 0 <= row < len(self._shown) and event.y >= 2:
            self.post_message(self.Selected(self._shown[row].seq))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.first_row += 3
        self.redraw()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.first_row -= 3
        self.redraw()
