"""Logical residency: the tree of contents that KV events name, and below it how much is where. Never physical layout.

Events know contents, not blocks: no ids, owners, ref counts, partly filled blocks or order of eviction. Where a figure
is a bound it is shown as one.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual import events

from kvtop.app.lines import Line, Span, fitted, wrapped
from kvtop.app.watch.actions import watch_bindings
from kvtop.app.watch.scene import WatchScene
from kvtop.app.widgets.drawing import FramedDrawing
from kvtop.attach.kv_events import Hash
from kvtop.view.clean import clean_line
from kvtop.view.residency import Residency, Scope
from kvtop.view.residency_tree import ContentBranch, ContentTree, content_tree
from kvtop.view.words import UNKNOWN, count


class ContentPanel(FramedDrawing, can_focus=True):
    BINDINGS = watch_bindings("prefix")
    scene: WatchScene

    def __init__(self, scene: WatchScene, id: str) -> None:
        super().__init__(scene, id)
        self.first_row = 0
        self._trees: list[tuple[Scope, ContentTree]] = []
        self._made_of: object = None

    def scroll_rows(self, rows: int) -> None:
        self.first_row = max(0, self.first_row + rows)
        self.redraw()

    def _current(self) -> list[tuple[Scope, ContentTree]]:
        """The trees of the shown rank, one a group of layers."""
        residency, rank = self._residency(), self._rank()
        made_of = (residency, residency.version, rank) if residency is not None else None
        if made_of != self._made_of:
            self._made_of = made_of
            scopes = [scope for scope in residency.scopes if scope.rank == rank] if residency is not None else []
            self._trees = [(scope, content_tree(residency, scope)) for scope in scopes if residency is not None]
        return self._trees

    def _residency(self) -> Residency | None:
        events = self.scene.server.events
        return events.residency if events is not None else None

    def _rank(self) -> int:
        return int(self.scene.place.rank) if self.scene.place.rank.isdecimal() else 0

    def title(self) -> Sequence[Span]:
        named = self.scene.palette.named
        return [("logical residency", named.title), (" which content is cached, not where it lies", named.muted)]

    def figures(self) -> Sequence[Span]:
        contents = sum(tree.contents for _, tree in self._current())
        if not contents or self.size.width < 80:
            return ()
        return [(count(contents, "content"), self.scene.palette.named.text)]

    def note(self) -> Sequence[Span]:
        words = f"unknown here: block ids, owners, ref counts, partly filled blocks, order of eviction: {UNKNOWN}"
        return [(words if len(words) < self.size.width - 6 else "block ids, owners: –", self.scene.palette.named.muted)]

    def content(self, width: int, height: int) -> Sequence[Line]:
        named, events = self.scene.palette.named, self.scene.server.events
        if events is None or not events.listeners:
            why = events.no_events if events is not None else "KV events are not listened to (--events off)"
            return [((" ", named.text), *line) for line in wrapped(why, named.muted, width - 2)]
        lines: list[Line] = []
        for scope, tree in self._current():
            lines += self._tree(scope, tree, width)
        if not lines:
            heard = any(listener.stream.received for listener in events.listeners)
            why = "nothing is cached, as far as events tell: a block enters when it is full"
            if not heard:
                why = "No event has come yet: what is cached is not known before one does, and the replay after it."
            return [((" ", named.text), *line) for line in wrapped(why, named.muted, width - 2)]
        self.first_row = max(0, min(self.first_row, len(lines) - height))
        return lines[self.first_row :]

    def _tree(self, scope: Scope, tree: ContentTree, width: int) -> list[Line]:
        named, residency = self.scene.palette.named, self._residency()
        assert residency is not None
        size = residency.block_sizes.get(scope, 0)
        kind = clean_line(residency.kinds.get(scope, ""), 30)
        head = f" group {scope.group}{', ' + kind if kind else ''}, {size} tokens a block"
        heading = f"  {'contents':<18}{'tokens':>13}{'copies':>8}  {'where':<14}begins with"
        lines: list[Line] = [((head, named.strong),), fitted([(heading, named.muted)], width, self.blank)]
        for branch, lead in tree.rows():
            lines.append(fitted(self._row(branch, lead, size), width, self.blank))
        if tree.is_cut:
            lines.append(((" there are more; only these were looked at", named.warning),))
        return lines

    def _row(self, branch: ContentBranch, lead: str, size: int) -> list[Span]:
        named = self.scene.palette.named
        blocks = len(branch.contents)
        tree: list[Span] = [(" ", named.text), (lead, named.faint)]
        if branch.placeholder:
            tree.append(("… not resident", named.muted))
            return [*fitted(tree, 20, named.text), (f"{UNKNOWN:>13}{UNKNOWN:>8}  {UNKNOWN:<14}", named.muted),
                    (_short(branch.contents[0]), named.faint)]  # fmt: skip
        tree.append((f"{blocks:,}", named.strong))
        begin = branch.depth * size
        copies = f"{branch.certain}" if branch.at_most == branch.certain else f"{branch.certain}–{branch.at_most}"
        return [
            *fitted(tree, 20, named.text),
            (f"{begin:,}–{begin + blocks * size - 1:,}".rjust(13), named.text),
            (f"{copies:>8}", named.text if branch.certain == blocks else named.warning),
            (f"  {clean_line(', '.join(branch.media), 14):<14}", named.accent),
            (_short(branch.contents[0]), named.faint),
        ]

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.scroll_rows(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.scroll_rows(-3)


class TierPanel(FramedDrawing):
    """How much is where, by medium and group, and whatever one must know of the events: gaps, restarts, silence."""

    scene: WatchScene

    def title(self) -> Sequence[Span]:
        return [("where", self.scene.palette.named.title)]

    def figures(self) -> Sequence[Span]:
        """The badge of a stream that is not whole."""
        named, events = self.scene.palette.named, self.scene.server.events
        missing = [listener.stream.incomplete_since for listener in events.listeners] if events is not None else []
        known = [number for number in missing if number is not None]
        return [(f" incomplete since {min(known):,} ", named.badge)] if known else ()

    def content(self, width: int, height: int) -> Sequence[Line]:
        named, server = self.scene.palette.named, self.scene.server
        lines: list[Line] = []
        for note in server.notes():
            told = wrapped(note, named.warning, width - 4)
            lines += [((" ! ", named.bad), *told[0]), *(((" " * 3, named.text), *line) for line in told[1:])]
        if server.events is not None:
            for tier, view in sorted(server.events.residency.tiers.items()):
                here = f" rank {tier.rank} · {clean_line(tier.medium, 20)} · group {tier.group}"
                bounds = (
                    f"{view.at_least:,}" if view.at_least == view.at_most else f"{view.at_least:,}–{view.at_most:,}"
                )
                told_so_far = f"{view.stored:,} stored, {view.removed:,} removed"
                lost = f", {view.unknown_removed:,} of them never seen stored" if view.unknown_removed else ""
                lines.append(
                    fitted(
                        [(f"{here:<32}", named.muted), (f"{bounds:>9} blocks", named.strong),
                         (f"   {told_so_far}{lost}", named.muted)],
                        width,
                        self.blank,
                    )
                )  # fmt: skip
        return lines


def _short(content: Hash) -> str:
    shown = content.hex() if isinstance(content, bytes) else f"{content & (1 << 64) - 1:016x}"
    return shown[:10] + "…"
