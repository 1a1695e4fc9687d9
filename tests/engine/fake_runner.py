"""A runner without a model, in which every fault of the pool becomes a wrong token.

A slot holds (token id, position). The next token is a hash of all slots the sequence reads through its block table, so
an aliased, stale or uncopied block changes the text. Blocks that become free are poisoned by the harness.
"""

from __future__ import annotations

import hashlib
from array import array

from kvtop.engine.beams import Continuation, beam_search
from kvtop.engine.plan import Sampled, Scheduled, StepPlan, StepResult
from kvtop.engine.requests import Request, sampling_seed, stop_tokens
from kvtop.engine.sequences import Sequence

VOCAB = 50
POISON = (-7, -7)
Slot = tuple[int, int]


class FakeRunner:
    def __init__(self, num_blocks: int, block_size: int, swap_blocks: int = 0) -> None:
        self.block_size = block_size
        self.pool: list[list[Slot]] = [[POISON] * block_size for _ in range(num_blocks)]
        self.swap: list[list[Slot]] = [[POISON] * block_size for _ in range(swap_blocks)]
        self.released: list[int] = []

    def run(self, plan: StepPlan) -> StepResult:
        for transfer in plan.transfers:
            src = self.swap if transfer.kind == "swap_in" else self.pool
            dst = self.swap if transfer.kind == "swap_out" else self.pool
            dst[transfer.dst] = list(src[transfer.src])
        written: set[tuple[int, int]] = set()
        for entry in plan.scheduled:
            for position in range(entry.start, entry.start + entry.count):
                place = self._place(entry.sequence, position)
                assert place not in written, f"slot {place} is written twice in one step"
                written.add(place)
                self.pool[place[0]][place[1]] = (entry.sequence.tokens[position], position)
        sampled = [self._sample(entry) for entry in plan.scheduled]
        return StepResult(sampled, sum(entry.count for entry in plan.scheduled))

    def release(self, sequence: Sequence) -> None:
        self.released.append(sequence.seq)

    def _place(self, sequence: Sequence, position: int) -> tuple[int, int]:
        return sequence.table.block_ids[position // self.block_size], position % self.block_size

    def _sample(self, entry: Scheduled) -> list[Sampled]:
        sequence = entry.sequence
        if not (entry.draws or entry.candidates):
            return []
        context = [self.pool[b][o] for b, o in (self._place(sequence, p) for p in range(entry.start + entry.count))]
        if entry.candidates:
            return candidates(context, entry.candidates)
        return [Sampled(draw(context, sequence.request, sequence.index + i), -1.0) for i in range(entry.draws)]


def candidates(context: list[Slot], count: int) -> list[Sampled]:
    """The ``count`` likeliest continuations, by a log-probability that hashes the context."""
    scored = [Sampled(token, -1.0 - hash_of(context, token) % 99991 / 9973) for token in range(VOCAB)]
    return sorted(scored, key=lambda s: (-s.logprob, s.token))[:count]


def draw(context: list[Slot], request: Request, index: int) -> int:
    """Greedy: the same for every sample. With a temperature: by the sample's seed, as a real sampler would."""
    seed = (sampling_seed(request, index) or 0) if request.temperature else 0
    return hash_of(context, seed) % VOCAB


def hash_of(context: list[Slot], salt: int) -> int:
    data = array("q", [salt, *(number for slot in context for number in slot)]).tobytes()
    return int.from_bytes(hashlib.blake2b(data, digest_size=6).digest(), "little")


def oracle(request: Request, prompt: list[int], max_model_len: int, index: int = 0) -> list[int]:
    """What sample ``index`` of the request generates alone, with all the memory in the world."""
    tokens = list(prompt)
    while len(tokens) - len(prompt) < request.max_tokens and len(tokens) < max(max_model_len, len(prompt) + 1):
        token = draw([(t, p) for p, t in enumerate(tokens)], request, index)
        tokens.append(token)
        if token in request.stop_token_ids:
            break
    return tokens[len(prompt) :]


def beam_oracle(request: Request, prompt: list[int], max_model_len: int) -> list[int]:
    """The answer of a beam search alone, its beams kept as plain lists."""
    search = beam_search(request, len(prompt), max_model_len, stop_tokens(request, frozenset()))
    assert search is not None
    beams: list[tuple[list[int], float]] = [([], 0.0)]
    while True:
        proposals = []
        for i, (tokens, score) in enumerate(beams):
            context = [(t, p) for p, t in enumerate(prompt + tokens)]
            ranked = candidates(context, search.candidates)
            proposals.append([Continuation(i, s.token, score + s.logprob) for s in ranked])
        surviving = search.advance([tokens for tokens, _ in beams], proposals)
        if search.done:
            return search.hypotheses[0].tokens
        beams = [([*beams[c.parent][0], c.token], c.score) for c in surviving]
