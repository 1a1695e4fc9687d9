"""The decision path: the way the scheduler took in the last step, question by question, with the real numbers.

Shown while the engine is paused (or asked for with ``d``). The turns come from ``kvtop.view.decision``, which reads
them off the events; here they only get their place: each "no" leads one step further in, then stands what was done.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvtop.app.lines import Line, Span, line_width, wrapped
from kvtop.app.widgets.painted import Framed
from kvtop.view.decision import Turn, decision_path, sequence_in_question
from kvtop.view.words import who


class DecisionPanel(Framed):
    """Tells of the selected sequence when something was decided about it, else of the one that tells most."""

    @property
    def _hiding(self) -> bool:
        """The engine has taken a step whose outcome is not to be seen yet."""
        feed = self.scene.feed
        return self.scene.predict and feed.frozen and not feed.in_past and feed.live.step > feed.view.step

    def _path(self) -> tuple[int | None, list[Turn]]:
        view = self.scene.feed.live if self._hiding else self.scene.view
        selected = self.scene.selected
        if selected is not None and (turns := decision_path(view, selected)):
            return selected, turns
        seq = sequence_in_question(view)
        return seq, decision_path(view, seq) if seq is not None else []

    def title(self) -> Sequence[Span]:
        palette, view = self.scene.palette, self.scene.view
        seq, _ = self._path()
        words: list[Span] = [("decision", palette.named.title)]
        if seq is not None:
            words += [(" for ", palette.named.muted), (who(view, seq), palette.owner_ink(view.slots.slot_of(seq)))]
        return words

    def figures(self) -> Sequence[Span]:
        if self.scene.view.info is None:
            return ()
        step = self.scene.feed.live.step if self._hiding else self.scene.view.step
        return [(f"step {step:,}", self.scene.palette.named.muted)]

    def content(self, width: int, height: int) -> Sequence[Line]:
        named = self.scene.palette.named
        _, turns = self._path()
        if not turns:
            return [((" nothing was decided in this step", named.muted),)]
        if self._hiding:
            asked = Turn(turns[0].question, None, turns[0].numbers, "")
            return [
                *self._turn(asked, 0, width),
                ((" What will the scheduler do?  ", named.strong), ("u", named.accent), (" uncovers it", named.muted)),
            ]
        lines = self._nothing_about_the_selected(width)
        for depth, turn in enumerate(turns):
            lines += self._turn(turn, depth, width)
        if len(lines) <= height:
            return lines
        return [*lines[: max(1, height - 2)], ((" …", named.muted),), lines[-1]][:height]

    def _nothing_about_the_selected(self, width: int) -> list[Line]:
        """Somebody else's path is shown: say so, or it is taken for the selected one's."""
        view, selected = self.scene.view, self.scene.selected
        if selected is None or selected not in view.sequences or self._path()[0] == selected:
            return []
        words = f"nothing was decided about {who(view, selected)} in this step, but:"
        return [
            ((" ", self.scene.palette.named.text), *line)
            for line in wrapped(words, self.scene.palette.named.muted, width - 2)
        ]

    def _turn(self, turn: Turn, depth: int, width: int) -> list[Line]:
        named = self.scene.palette.named
        inset = " " * min(depth, 4)
        mark, style = {True: ("✓", named.good), False: ("✗", named.warning), None: ("◆", named.bad)}[turn.yes]
        lines: list[Line] = [((f" {inset}", named.text), (mark, style), (f" {turn.question} ", named.text))]
        numbers = (turn.numbers, named.muted)
        if line_width([*lines[0], numbers]) <= width:
            lines = [(*lines[0], numbers)]
        else:
            lines.append(((f" {inset}  ", named.text), numbers))
        if turn.then:
            told = wrapped(turn.then, named.strong, max(8, width - len(inset) - 6))
            lines.append(((f" {inset}  → ", named.strong), *told[0]))
            lines += [((f" {inset}    ", named.strong), *line) for line in told[1:]]
        return lines
