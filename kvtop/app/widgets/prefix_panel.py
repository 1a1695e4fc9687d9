"""The prefix tree: what prompts begin with, who shares it, and how many blocks that saves. A row a branch.

The cursor is the grid's: a row is chosen by its first block, and what the grid points at is found here. A very large
index is looked at again only after twenty times as long as it took.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from textual import events

from kvtop.app.actions import panel_bindings
from kvtop.app.lines import Line, Span, fitted, line_width
from kvtop.app.scene import Scene
from kvtop.app.widgets.painted import Framed
from kvtop.view.owner_slots import glyph
from kvtop.view.prefix_tree import Branch, PrefixTree, prefix_tree
from kvtop.view.words import UNKNOWN, count, size

MOST_NAMES = 6
CHEAP_S = 0.02
"""A tree made faster than this is made for every frame."""


class PrefixPanel(Framed, can_focus=True):
    BINDINGS = panel_bindings("prefix")

    def __init__(self, scene: Scene, id: str) -> None:
        super().__init__(scene, id)
        self.first_row = 0
        self._tree = PrefixTree([], 0, 0)
        self._made_of: object = None
        self._next_s = 0.0

    # --- the tree -------------------------------------------------------------------------------------------------

    def current(self) -> PrefixTree:
        """The tree of the view that is shown."""
        view = self.scene.view
        made_of = (view, view.number)
        if made_of != self._made_of and time.monotonic() >= self._next_s:
            started = time.monotonic()
            self._tree, self._made_of = prefix_tree(view), made_of
            took = time.monotonic() - started
            self._next_s = started + 20 * took if took > CHEAP_S else 0.0
        return self._tree

    def move(self, step: int) -> None:
        """Point at the branch ``step`` rows below."""
        rows = self.current().rows()
        if rows:
            at = self._at(rows)
            target = 0 if at is None else max(0, min(len(rows) - 1, at + step))
            self.scene.cursor = rows[target][0].blocks[0]

    def _at(self, rows: Sequence[tuple[Branch, str]]) -> int | None:
        cursor = self.scene.cursor
        return next((i for i, (branch, _) in enumerate(rows) if cursor in branch.blocks), None)

    # --- the panel ------------------------------------------------------------------------------------------------

    def title(self) -> Sequence[Span]:
        return [("prefix tree", self.scene.palette.named.title)]

    def figures(self) -> Sequence[Span]:
        named, info = self.scene.palette.named, self.scene.view.info
        if info is None:
            return ()
        saved = self.current().saved_blocks
        memory = size(saved * info.block_size * info.kv_bytes_per_token)
        return [("sharing saves ", named.muted), (f"{count(saved, 'block')} {memory}", named.good)]

    def note(self) -> Sequence[Span]:
        counters = self.scene.view.counters
        words = f"{count(self.current().indexed_blocks, 'block')} indexed"
        if counters.prefix_queried_tokens:
            words += f" · {counters.prefix_hit_tokens:,} of {counters.prefix_queried_tokens:,} prompt tokens found"
        return [(words, self.scene.palette.named.muted)]

    def content(self, width: int, height: int) -> Sequence[Line]:
        named, view, tree = self.scene.palette.named, self.scene.view, self.current()
        if view.info is not None and not view.caches_prefixes:
            return [((" this engine keeps no prefix cache", named.muted),)]
        rows = tree.rows()
        if not rows:
            return [((" nothing is indexed yet: a block enters the tree when it is full", named.muted),)]
        at, shown = self._at(rows), max(1, height - 1)
        if at is not None:
            self.first_row = min(max(self.first_row, at - shown + 1), at)
        self.first_row = max(0, min(self.first_row, len(rows) - shown))
        heading: Span = (f"  {'blocks':<16}{'tokens':>13}{'ref':>5}{'hits':>6}{'saves':>7}  held by", named.muted)
        lines = [fitted([heading], width, named.text)]
        for index, (branch, lead) in enumerate(rows[self.first_row : self.first_row + shown], self.first_row):
            line = fitted(self._row(branch, lead, width), width, named.text)
            if index == at:
                line = (("▌", named.focus), *line[1:])
                line = tuple((text, self.scene.palette.selected(style)) for text, style in line)
            lines.append(line)
        return lines

    def _row(self, branch: Branch, lead: str, width: int) -> Line:
        named, view = self.scene.palette.named, self.scene.view
        block_size = view.block_size
        begin = branch.depth * block_size
        tokens = f"{begin:,}–{begin + len(branch.blocks) * block_size - 1:,}" if not branch.is_cut else UNKNOWN
        mark = "… " if branch.is_cut else ""
        tree: list[Span] = [(" ", named.text), (lead, named.faint), (f"{mark}{len(branch.blocks):,}", named.strong)]
        return (
            *fitted(tree, 18, named.text),
            (f"{tokens:>13}", named.text),
            (f"{branch.ref_count:>5}", named.strong if branch.ref_count > 1 else named.muted),
            (f"{branch.hits or '·':>6}", named.text),
            (f"{branch.saved or '·':>7}", named.good if branch.saved else named.muted),
            ("  ", named.text),
            *self._holders(branch, width - 51),
        )

    def _holders(self, branch: Branch, room: int) -> list[Span]:
        palette, view = self.scene.palette, self.scene.view
        named = palette.named
        if not branch.seqs:
            last = int(view.blocks.owners[branch.blocks[-1]])
            return [("cached" + (f", last {view.name_of(last)}" if last else ""), named.muted)]
        spans: list[Span] = []
        for place, seq in enumerate(branch.seqs):
            slot, name = view.slots.slot_of(seq), view.name_of(seq)
            more = f"+{len(branch.seqs) - place}"
            if spans and (place == MOST_NAMES or line_width(spans) + len(name) + 3 + len(more) > room):
                spans.append((more, named.muted))
                break
            spans += [(glyph(slot), palette.owner_chip(slot)), (f" {name} ", named.text)]
        return spans

    def on_mouse_down(self, event: events.MouseDown) -> None:
        rows, at = self.current().rows(), self.first_row + event.y - 2
        if event.y >= 2 and at < len(rows):
            self.scene.cursor = rows[at][0].blocks[0]
            self.redraw()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.move(3)
        self.redraw()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.move(-3)
        self.redraw()
