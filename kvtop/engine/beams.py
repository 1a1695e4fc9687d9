"""Beam search bookkeeping of one request: which continuations live on, which are answers, when it is over.

Pure arithmetic over (beam, token, score); it knows no blocks. It decides as ``generate(num_beams=...)`` of
transformers 5 does (`_beam_search`), so that the two can be compared token for token: the best ``max(2, 1 + stop
tokens) * width`` continuations are ranked; those among the first ``width`` that end become hypotheses; the best
``width`` that do not end go on; the search is over when no running beam can beat the worst hypothesis, when
``early_stopping`` has ``width`` hypotheses, or when everything ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kvtop.engine.requests import Request
from kvtop.engine.sequences import Sequence


@dataclass(slots=True, frozen=True)
class Continuation:
    """Beam ``parent`` (an index into the beams given to ``advance``) followed by ``token``; ``score`` sums
    log-probs."""

    parent: int
    token: int
    score: float


@dataclass(slots=True, frozen=True)
class Hypothesis:
    """A finished answer; ``score`` is its summed log-prob divided by its length to the power of the length penalty."""

    tokens: list[int]
    score: float


@dataclass(slots=True)
class BeamSearch:
    """``length_limit`` is the most tokens an answer may have; ``stop_tokens`` end one."""

    width: int
    length_limit: int
    stop_tokens: frozenset[int]
    length_penalty: float
    early_stopping: bool
    hypotheses: list[Hypothesis] = field(default_factory=list)
    done: bool = False

    @property
    def candidates(self) -> int:
        """Continuations wanted from each beam."""
        return max(2, 1 + len(self.stop_tokens)) * self.width

    def advance(self, beams: list[list[int]], proposals: list[list[Continuation]]) -> list[Continuation]:
        """One step. ``beams[i]`` is what beam i has generated, ``proposals[i]`` its continuations with their summed
        scores. Returns the continuations that live on (at most ``width``, best first) and sets ``done``."""
        ranked = sorted((c for own in proposals for c in own), key=lambda c: -c.score)[: self.candidates]
        length = len(beams[0]) + 1
        full = self.early_stopping and len(self.hypotheses) == self.width
        surviving: list[Continuation] = []
        all_ended = True
        for rank, continuation in enumerate(ranked):
            if continuation.token in self.stop_tokens or length >= self.length_limit:
                if rank < self.width and not full:
                    tokens = [*beams[continuation.parent], continuation.token]
                    self.hypotheses.append(Hypothesis(tokens, continuation.score / length**self.length_penalty))
            else:
                all_ended = False
                if len(surviving) < self.width:
                    surviving.append(continuation)
        self.hypotheses.sort(key=lambda hypothesis: -hypothesis.score)
        del self.hypotheses[self.width :]
        self.done = all_ended or not self._can_improve(surviving, length)
        return [] if self.done else surviving

    def _can_improve(self, surviving: list[Continuation], length: int) -> bool:
        if len(self.hypotheses) < self.width:
            return True
        best_possible = surviving[0].score / length**self.length_penalty
        return not self.early_stopping and best_possible > self.hypotheses[-1].score

    def best(self, live: list[Sequence]) -> list[int]:
        """The best hypothesis, or, when none was finished, what the best running beam has."""
        if self.hypotheses:
            return self.hypotheses[0].tokens
        leader = max(live, key=lambda sequence: sequence.cumulative_logprob)
        return leader.tokens[leader.prompt_len :]


def beam_search(request: Request, prompt_len: int, max_model_len: int, stops: frozenset[int]) -> BeamSearch | None:
    """The search a request asks for, if it does."""
    if not request.beam_width:
        return None
    return BeamSearch(
        width=request.beam_width,
        length_limit=max(1, min(request.max_tokens, max_model_len - prompt_len)),
        stop_tokens=stops,
        length_penalty=request.length_penalty,
        early_stopping=request.early_stopping,
    )
