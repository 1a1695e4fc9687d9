"""From logits to tokens: greedy, sampled, or the candidates of a beam.

One idea: a row's outcome depends on its own logits, its request and its output position, never on the batch: the
random number is a function of (seed, position). What acts on a row acts in the order of transformers' ``generate``:
repetition penalty, temperature, top-k, top-p, min-p.
"""

from __future__ import annotations

import secrets

import torch

from kvtop.engine.plan import Sampled, Scheduled
from kvtop.engine.random_streams import seed_of
from kvtop.engine.requests import sampling_seed
from kvtop.engine.token_choice import cut, likeliest, pick

_ROWS_AT_ONCE = 16
"""Rows handled together on a CPU: more would fetch fresh memory each time, which costs more than the arithmetic."""


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
        reported: list[int] = []
        for index, row in enumerate(rows):
            request = row.sequence.request
            if row.candidates:
                results[index] = _candidates(logits[index], row)
                continue
            (random if request.temperature else greedy).append(index)
            if request.logprobs is not None:
                reported.append(index)
        rows_at_once = _ROWS_AT_ONCE if logits.device.type == "cpu" else len(rows)
        for part in _parts(greedy, rows_at_once):
            for index, token in zip(part, _greedy(logits[part].float(), [rows[i] for i in part]), strict=True):
                results[index] = [Sampled(token)] * rows[index].draws
        for part in _parts(random, rows_at_once):
            drawn = self._draw(logits[part].float(), [rows[index] for index in part])
            for index, tokens in zip(part, drawn, strict=True):
                results[index] = [Sampled(token) for token in tokens]
        if reported:
            _add_logprobs(logits[reported], results, rows, reported)
        return results

    def _draw(self, scores: torch.Tensor, rows: list[Scheduled]) -> list[list[int]]:
        """``scores`` float32 [len(rows), vocabulary] are the logits; they are changed."""
        requests = [row.sequence.request for row in rows]
        for place, row in enumerate(rows):
            if requests[place].repetition_penalty != 1:
                _penalise(scores[place], row)
        highest = scores.amax(dim=-1, keepdim=True)
        _refuse_nan(highest[:, 0], rows)
        scores -= highest  # so that a tiny temperature cannot overflow
        scores /= scores.new_tensor([request.temperature for request in requests])[:, None]
        drawn: list[list[int]] = [[] for _ in rows]
        for part in cut(scores, requests):
            chosen = [rows[place] for place in part.rows]
            for place, picked in zip(part.rows, pick(part, [self._streams(row) for row in chosen]), strict=True):
                drawn[place] = picked
        return drawn

    def _streams(self, row: Scheduled) -> list[tuple[int, int]]:
        """Where each draw of the row takes its noise from: (seed, position in the answer)."""
        return [(self._seed(row, draw), row.sequence.generated) for draw in range(row.draws)]

    def _seed(self, row: Scheduled, draw: int) -> int:
        request, index = row.sequence.request, row.sequence.index + draw
        seed = sampling_seed(request, index)
        return seed_of(self._nonce, request.id) + index if seed is None else seed


def _parts(indices: list[int], size: int) -> list[list[int]]:
    return [indices[start : start + size] for start in range(0, len(indices), size)]


def _greedy(scores: torch.Tensor, rows: list[Scheduled]) -> list[int]:
    """``scores`` float32 [len(rows), vocabulary] are the logits; they are changed."""
    for place, row in enumerate(rows):
        if row.sequence.request.repetition_penalty != 1:
            _penalise(scores[place], row)
    highest, tokens = likeliest(scores)
    _refuse_nan(highest, rows)
    picked: list[int] = tokens.tolist()
    return picked


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


def _candidates(logits: torch.Tensor, row: Scheduled) -> list[Sampled]:
    """A beam's likeliest continuations; the penalty acts on log-probabilities, as in ``generate``."""
    logprobs = logits.float().log_softmax(dim=-1)
    _refuse_nan(logprobs.amax()[None], [row])
    if row.sequence.request.repetition_penalty != 1:
        _penalise(logprobs, row)
    values, tokens = logprobs.topk(min(row.candidates, len(logprobs)))
    return [Sampled(token, value) for token, value in zip(tokens.tolist(), values.tolist(), strict=True)]


def _add_logprobs(
    logits: torch.Tensor, results: list[list[Sampled]], rows: list[Scheduled], reported: list[int]
) -> None:
    """Put log-probabilities beside the tokens of the rows ``reported``, whose logits are ``logits``."""
    logprobs = logits.float().log_softmax(dim=-1)
    counts = [rows[index].sequence.request.logprobs or 0 for index in reported]
    values, tokens = logprobs.topk(min(max(counts), logprobs.shape[1]))
    tops = [
        tuple(zip(ids[:count], numbers[:count], strict=True))
        for ids, numbers, count in zip(tokens.tolist(), values.tolist(), counts, strict=True)
    ]
    for place, index in enumerate(reported):
        results[index] = [
            Sampled(item.token, float(logprobs[place, item.token]), tops[place]) for item in results[index]
        ]
