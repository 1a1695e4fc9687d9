"""From logits to tokens: greedy, sampled, or the candidates of a beam.

One idea: a row's outcome depends on its own logits, its request and its output position, never on the batch: the
random number is a function of (seed, position), and it picks from the cumulated probabilities in token order. Filters
act in the order of transformers' ``generate``: repetition penalty, temperature, top-k, top-p, min-p.
"""

from __future__ import annotations

import secrets

import torch

from kvtop.engine.plan import Sampled, Scheduled
from kvtop.engine.random_streams import seed_of, uniforms
from kvtop.engine.requests import sampling_seed

_FIRST_TOP_P_LOOK = 256
"""The most likely tokens to sort at first when looking for a top-p set; most sets are smaller."""


class SamplingError(RuntimeError):
    """The logits of a row are not numbers; nothing was drawn."""


class Sampler:
    """Stateless but for a random nonce, from which requests without a seed get one."""

    def __init__(self) -> None:
        self._nonce = secrets.token_bytes(16)

    def sample(self, logits: torch.Tensor, rows: list[Scheduled]) -> list[list[Sampled]]:
        """``draws`` tokens, or ``candidates`` in falling order, for each row of ``logits`` [len(rows), vocabulary].

        A token's ``logprob`` is worked out where the request asks for logprobs or is a beam, else it is 0.

        Raises:
            SamplingError: a row holds NaN, or no finite value.
        """
        results: list[list[Sampled]] = [[] for _ in rows]
        greedy: list[int] = []
        random: list[int] = []
        beams: list[int] = []
        for index, row in enumerate(rows):
            kind = beams if row.candidates else random if row.sequence.request.temperature else greedy
            kind.append(index)
        if greedy:
            for index, token in zip(greedy, self._greedy(logits, rows, greedy), strict=True):
                results[index] = [Sampled(token)] * rows[index].draws
        if random:
            for index, tokens in zip(random, self._random(logits[random], [rows[i] for i in random]), strict=True):
                results[index] = [Sampled(token) for token in tokens]
        for index in beams:
            results[index] = _candidates(logits[index], rows[index])
        for index, row in enumerate(rows):
            if row.sequence.request.logprobs is not None and not row.candidates:
                results[index] = _with_logprobs(logits[index], results[index], row.sequence.request.logprobs)
        return results

    def _greedy(self, logits: torch.Tensor, rows: list[Scheduled], chosen: list[int]) -> list[int]:
        scores = logits if len(chosen) == len(rows) else logits[chosen]
        penalised = [
            place for place, index in enumerate(chosen) if rows[index].sequence.request.repetition_penalty != 1
        ]
        if penalised:
            scores = scores.float()  # a copy, unless the logits are float32 already
            scores = scores.clone() if scores.data_ptr() == logits.data_ptr() else scores
            for place in penalised:
                _penalise(scores[place], rows[chosen[place]])
        highest, tokens = scores.max(dim=-1)  # on a CPU several times faster than argmax
        _refuse_nan(highest, [rows[index] for index in chosen])
        return tokens.tolist()

    def _random(self, logits: torch.Tensor, rows: list[Scheduled]) -> list[list[int]]:
        """``logits`` [len(rows), vocabulary] may be changed."""
        scores = logits.float()
        for place, row in enumerate(rows):
            if row.sequence.request.repetition_penalty != 1:
                _penalise(scores[place], row)
        requests = [row.sequence.request for row in rows]
        highest = scores.max(dim=-1, keepdim=True).values
        _refuse_nan(highest[:, 0], rows)
        scores -= highest  # so that a tiny temperature cannot overflow
        scores /= scores.new_tensor([request.temperature for request in requests])[:, None]
        _keep_top_k(scores, [request.top_k for request in requests])
        _keep_top_p(scores, [request.top_p for request in requests])
        _keep_min_p(scores, [request.min_p for request in requests])
        cumulated = scores.softmax(dim=-1, dtype=torch.float64).cumsum(dim=-1)
        total = cumulated[:, -1:].contiguous()
        numbers = torch.zeros(len(rows), max(row.draws for row in rows), dtype=torch.float64)
        for place, row in enumerate(rows):
            seeds = [self._seed(row, draw) for draw in range(row.draws)]
            positions = [row.sequence.generated] * row.draws
            numbers[place, : row.draws] = torch.from_numpy(uniforms(seeds, positions))
        tokens = torch.searchsorted(cumulated, numbers.to(cumulated.device) * total, right=True)
        last_possible = torch.searchsorted(cumulated, total)
        tokens = tokens.minimum(last_possible)
        return [drawn[: row.draws] for drawn, row in zip(tokens.tolist(), rows, strict=True)]

    def _seed(self, row: Scheduled, draw: int) -> int:
        request, index = row.sequence.request, row.sequence.index + draw
        seed = sampling_seed(request, index)
        return seed_of(self._nonce, request.id) + index if seed is None else seed


def _refuse_nan(values: torch.Tensor, rows: list[Scheduled]) -> None:
    bad = values.isnan() | values.isneginf()
    if bad.any():
        sequence = rows[int(bad.nonzero()[0])].sequence
        raise SamplingError(
            f"the model's logits for request {sequence.request.id!r} at position {len(sequence.tokens)} are not "
            "numbers (NaN); expected finite ones: try --dtype float32, or check the model's weights"
        )


def _penalise(scores: torch.Tensor, row: Scheduled) -> None:
    """Divide the score of every token seen so far by the penalty, or multiply it if it is below 0 (Keskar et al. 2019,
    arXiv:1909.05858). ``scores`` [vocabulary] is changed."""
    penalty = row.sequence.request.repetition_penalty
    seen = torch.tensor(sorted(set(row.sequence.tokens)), device=scores.device)
    old = scores[seen]
    scores[seen] = torch.where(old < 0, old * penalty, old / penalty)


def _keep_top_k(scores: torch.Tensor, top_k: list[int]) -> None:
    """Set all but the ``top_k[i]`` highest scores of row i to -inf; 0 keeps all. Ties with the last are kept."""
    vocabulary = scores.shape[1]
    rows = [place for place, count in enumerate(top_k) if 0 < count < vocabulary]
    if rows:
        counts = torch.tensor([top_k[place] for place in rows], device=scores.device)[:, None]
        highest = scores[rows].topk(int(counts.max())).values
        _drop_below(scores, rows, highest.gather(1, counts - 1))


def _keep_top_p(scores: torch.Tensor, top_p: list[float]) -> None:
    """Keep of row i the smallest set of likeliest tokens whose probability reaches ``top_p[i]``; 1 keeps all."""
    vocabulary = scores.shape[1]
    rows = [place for place, share in enumerate(top_p) if share < 1]
    count = min(_FIRST_TOP_P_LOOK, vocabulary)
    while rows:
        shares = torch.tensor([top_p[place] for place in rows], dtype=torch.float64, device=scores.device)[:, None]
        chosen = scores[rows].double()
        highest = chosen.topk(count).values
        mass = (highest - chosen.logsumexp(dim=-1, keepdim=True)).exp().cumsum(dim=-1)
        reached = mass[:, -1] >= shares[:, 0] if count < vocabulary else torch.ones(len(rows), dtype=torch.bool)
        last = (mass < shares).sum(dim=-1, keepdim=True).clamp(max=count - 1)
        lowest = highest.gather(1, last).float()
        done = reached.tolist()
        _drop_below(scores, [row for row, ok in zip(rows, done, strict=True) if ok], lowest[reached])
        rows = [row for row, ok in zip(rows, done, strict=True) if not ok]
        count = vocabulary


def _keep_min_p(scores: torch.Tensor, min_p: list[float]) -> None:
    """Drop of row i the tokens less than ``min_p[i]`` times as probable as its likeliest one; 0 drops none."""
    rows = [place for place, share in enumerate(min_p) if share > 0]
    if rows:
        shares = scores.new_tensor([min_p[place] for place in rows])[:, None]
        _drop_below(scores, rows, scores[rows].max(dim=-1, keepdim=True).values + shares.log())


def _drop_below(scores: torch.Tensor, rows: list[int], lowest: torch.Tensor) -> None:
    """Set scores of row rows[i] below lowest[i, 0] to -inf."""
    kept = scores[rows]
    scores[rows] = kept.masked_fill(kept < lowest, float("-inf"))


def _candidates(logits: torch.Tensor, row: Scheduled) -> list[Sampled]:
    """A beam's likeliest continuations; the penalty acts on log-probabilities, as in ``generate``."""
    logprobs = logits.float().log_softmax(dim=-1)
    _refuse_nan(logprobs.max()[None], [row])
    if row.sequence.request.repetition_penalty != 1:
        _penalise(logprobs, row)
    values, tokens = logprobs.topk(min(row.candidates, len(logprobs)))
    return [Sampled(token, value) for token, value in zip(tokens.tolist(), values.tolist(), strict=True)]


def _with_logprobs(logits: torch.Tensor, drawn: list[Sampled], count: int) -> list[Sampled]:
    logprobs = logits.float().log_softmax(dim=-1)
    top: tuple[tuple[int, float], ...] = ()
    if count:
        values, tokens = logprobs.topk(min(count, len(logprobs)))
        top = tuple(zip(tokens.tolist(), values.tolist(), strict=True))
    return [Sampled(item.token, float(logprobs[item.token]), top) for item in drawn]
