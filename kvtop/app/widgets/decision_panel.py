"""The decision path: the way the scheduler took for the last block it needed, with the real numbers.

Last block has room? → write · else free block? → append · else cached one? → evict · else who is the victim, by which
rule → what it freed → again. Steps come from ``kvtop.view.decision``, which reads them off the events.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvtop.app.lines import Line, Span
from kvtop.app.widgets.painted import Framed


class DecisionPanel(Framed):
    def title(self) -> Sequence[Span]:
        return [("decision", self.scene.palette.named.title)]

    def content(self, width: int, height: int) -> Sequence[Line]:
        return ()
