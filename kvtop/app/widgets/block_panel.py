"""One block, told in full: who holds it, how full it is, what it is to each holder, and one plain sentence.

It reads the view's arrays for the block under the cursor; without a cursor it says how to get one.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvtop.app.lines import Line, Span, line_width, wrapped
from kvtop.app.widgets.painted import Framed
from kvtop.view.owner_slots import glyph
from kvtop.view.pool_view import PoolView
from kvtop.view.sequence_view import SequenceView

MOST_HOLDERS = 6


class BlockPanel(Framed):
    @property
    def block(self) -> int | None:
        cursor = self.scene.cursor
        return cursor if cursor is not None and cursor < self.scene.view.blocks.num_blocks else None

    def title(self) -> Sequence[Span]:
        named = self.scene.palette.named
        if self.block is None:
            return [("block", named.title)]
        return [(f"block {self.scene.view.block_id(self.block):,}", named.title)]

    def figures(self) -> Sequence[Span]:
        named, block, blocks = self.scene.palette.named, self.block, self.scene.view.blocks
        if block is None:
            return ()
        if blocks.ref_counts[block]:
            return [("held", named.good)]
        return [("cached", named.accent)] if blocks.hashes[block] else [("free", named.muted)]

    def content(self, width: int, height: int) -> Sequence[Line]:
        named, view, block = self.scene.palette.named, self.scene.view, self.block
        if block is None:
            words = "Point at a block: arrows or h j k l in the grid, or the mouse. Enter lights its owner."
            return [((" ", named.text), *line) for line in wrapped(words, named.muted, width - 2)]
        holders = view.holders_of(block)
        lines: list[Line] = [*self._owners(holders, block, width), self._facts(block)]
        if len(holders) > 1:
            lines += self._places(holders, width)
        sentence = explain(view, block, holders)
        return [*lines, *(((" ", named.text), *line) for line in wrapped(sentence, named.muted, width - 2))]

    def as_text(self) -> str:
        """All it says, as plain text; empty without a block."""
        if self.block is None:
            return ""
        lines = ["".join(text for text, _ in line).strip() for line in self.content(10_000, 20)]
        return f"block {self.scene.view.block_id(self.block)}: " + "; ".join(lines)

    def _places(self, holders: list[tuple[SequenceView, int]], width: int) -> list[Line]:
        """Which logical block it is to whom; in one word where all agree."""
        named = self.scene.palette.named
        if len({index for _, index in holders}) == 1:
            return [((" logical ", named.muted), (f"{holders[0][1]} of each", named.text))]
        places = ", ".join(f"{index} of {row.name}" for row, index in holders[:MOST_HOLDERS])
        first, *more = wrapped(places, named.text, max(1, width - 10))
        return [((" logical ", named.muted), *first), *(((" " * 9, named.text), *line) for line in more)]

    def _owners(self, holders: list[tuple[SequenceView, int]], block: int, width: int) -> list[Line]:
        palette, view = self.scene.palette, self.scene.view
        named = palette.named
        if not holders:
            last = int(view.blocks.owners[block])
            return [((" nobody holds it", named.text), (f"; last {view.name_of(last)}" if last else "", named.muted))]
        words: list[Line] = []
        for row, _ in holders[:MOST_HOLDERS]:
            slot = view.slots.slot_of(row.seq)
            words.append(((glyph(slot), palette.owner_chip(slot)), (f" {row.name}  ", named.strong)))
        if len(holders) > MOST_HOLDERS:
            words.append(((f"and {len(holders) - MOST_HOLDERS} more", named.muted),))
        lines: list[Line] = [((" ", named.text),)]
        for word in words:
            if line_width(lines[-1]) + line_width(word) > width and len(lines[-1]) > 1:
                lines.append(((" ", named.text),))
            lines[-1] += word
        return lines

    def _facts(self, block: int) -> Line:
        named, view = self.scene.palette.named, self.scene.view
        blocks = view.blocks
        content_hash = int(blocks.hashes[block])
        shown = f"{content_hash:016x}"[:8] + "…" if content_hash else "–"
        return (
            (" ref ", named.muted), (f"{int(blocks.ref_counts[block])}", named.text),
            ("   slots ", named.muted), (f"{int(blocks.fills[block])}/{view.block_size}", named.text),
            ("   hash ", named.muted), (shown, named.text),
        )  # fmt: skip


def explain(view: PoolView, block: int, holders: list[tuple[SequenceView, int]]) -> str:
    """One sentence a newcomer can follow, with this block's numbers."""
    blocks, size = view.blocks, view.block_size
    if holders:
        row, index = holders[0]
        fill = int(blocks.fills[block])
        last = index * size + fill - 1
        keeps = f"It keeps K and V of tokens {index * size:,} to {last:,}" if fill else "Nothing is written in it yet"
        if len(holders) > 1:
            return f"{keeps} once for all {len(holders)} of them: each table maps its own logical block to this one."
        where = f"{row.name}'s table maps logical block {index} to it."
        return f"{keeps}. {where}" + (f" {size - fill} slots are still empty." if fill < size else "")
    if blocks.hashes[block]:
        ahead = int(((blocks.ref_counts == 0) & (blocks.hashes != 0)
                     & (blocks.released_order < blocks.released_order[block])).sum())  # fmt: skip
        after = f"after {ahead:,} others" if ahead else "before all others"
        return f"Its content is kept in case a prompt begins the same way. When room is needed it goes {after}."
    ahead = int(((blocks.ref_counts == 0) & (blocks.hashes == 0)
                 & (blocks.released_order < blocks.released_order[block])).sum())  # fmt: skip
    return f"Free: {ahead:,} others are handed out before it." if ahead else "Free: it is the next one handed out."
