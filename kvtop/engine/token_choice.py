"""Which tokens a row may draw, the likeliest of them, and the one that chance picks.

One idea: top-k and top-p leave few tokens, so their rows are cut to their likeliest ones first and everything after
works on those; only where top-p needs more of them are more looked at. A draw is the token whose score plus noise of
its own is highest: rounding of the scores can change it only where two such sums all but tie, while a number that picks
from cumulated probabilities would land on a neighbour all the time in the tail. How many tokens were looked at changes
no outcome.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from kvtop.engine.random_streams import gumbels
from kvtop.engine.requests import Request

_LOOKS = (256, 4096)
"""How many of the likeliest tokens to look at, before all of them."""
_TILE = 256
"""Neighbouring tokens whose highest score is found first."""


@dataclass(slots=True, frozen=True)
class Cut:
    """What is left of some rows. ``scores`` [rows, tokens] are logits up to a constant, -inf for what is excluded;
    ``token_ids`` [rows, tokens] names them in rising order, None where all are there."""

    rows: list[int]
    scores: torch.Tensor
    token_ids: torch.Tensor | None


def cut(scores: torch.Tensor, requests: list[Request]) -> Iterator[Cut]:
    """Apply top-k, top-p and min-p to ``scores`` [len(requests), vocabulary], logits after temperature. Every row comes
    in one of the parts."""
    vocabulary = scores.shape[1]
    whole = [place for place, request in enumerate(requests) if not _is_cut(request, vocabulary)]
    if whole:
        kept = scores if len(whole) == len(requests) else scores[whole]
        yield Cut(whole, _keep_min_p(kept, kept.amax(dim=-1, keepdim=True), [requests[i] for i in whole]), None)
    left = [place for place, request in enumerate(requests) if _is_cut(request, vocabulary)]
    for look in (*(count for count in _LOOKS if count < vocabulary), vocabulary):
        if not left:
            break
        values, token_ids = scores[left].topk(look)
        enough = _keep_likeliest(values, scores, left, requests)
        done = [place for place, ok in zip(left, enough, strict=True) if ok]
        if done:
            chosen = torch.tensor(enough)
            kept = _keep_min_p(values[chosen], values[chosen, :1], [requests[i] for i in done])
            in_order = token_ids[chosen].sort(dim=-1)
            yield Cut(done, kept.gather(1, in_order.indices), in_order.values)
        left = [place for place, ok in zip(left, enough, strict=True) if not ok]


def likeliest(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The highest of each row of float32 ``scores`` [rows, vocabulary], NaN where there is one, and the first token
    that has it. In two stages, since on a CPU ``amax`` is many times as fast as ``max`` and ``argmax``."""
    vocabulary = scores.shape[1]
    whole = vocabulary // _TILE * _TILE
    tiles = scores[:, :whole].unflatten(1, (-1, _TILE)).amax(dim=-1)
    if whole < vocabulary:
        tiles = torch.cat([tiles, scores[:, whole:].amax(dim=-1, keepdim=True)], dim=1)
    highest, tile = tiles.max(dim=-1, keepdim=True)
    tokens = (tile * _TILE + torch.arange(_TILE, device=scores.device)).clamp_(max=vocabulary - 1)
    first = scores.gather(1, tokens).max(dim=-1, keepdim=True).indices
    return highest[:, 0], tokens.gather(1, first)[:, 0]


def pick(part: Cut, streams: list[list[tuple[int, int]]]) -> list[list[int]]:
    """The tokens each row draws, one for each (seed, position) of its ``streams``."""
    scores = part.scores.double().cpu().numpy()
    token_ids = None if part.token_ids is None else part.token_ids.cpu().numpy()
    everything = np.arange(scores.shape[1])
    picked = []
    for row, draws in enumerate(streams):
        ids = everything if token_ids is None else token_ids[row]
        places = [int(np.argmax(scores[row] + gumbels(seed, position, ids))) for seed, position in draws]
        picked.append([int(ids[place]) for place in places])
    return picked


def _is_cut(request: Request, vocabulary: int) -> bool:
    return request.top_p < 1 or 0 < request.top_k < vocabulary


def _keep_likeliest(values: torch.Tensor, scores: torch.Tensor, rows: list[int], requests: list[Request]) -> list[bool]:
    """Set what top-k and top-p exclude of ``values`` [len(rows), looked at], the highest of each row in falling order,
    to -inf. False for a row whose top-p set may be larger than what was looked at."""
    looked_at, vocabulary = values.shape[1], scores.shape[1]
    counts = [requests[row].top_k or vocabulary for row in rows]
    ranks = torch.arange(looked_at, device=values.device)
    values.masked_fill_(ranks >= torch.tensor(counts, device=values.device)[:, None], float("-inf"))
    shares = torch.tensor([requests[row].top_p for row in rows], dtype=torch.float64, device=values.device)[:, None]
    log_total = values.logsumexp(dim=-1, keepdim=True)
    beyond = [place for place, count in enumerate(counts) if count > looked_at]
    if beyond:
        log_total[beyond] = scores[[rows[place] for place in beyond]].logsumexp(dim=-1, keepdim=True)
    probabilities = (values - log_total).exp().double()
    mass = probabilities.cumsum(dim=-1)
    before = mass - probabilities
    values.masked_fill_((before >= shares) & (shares < 1), float("-inf"))
    reached = (mass[:, -1:] >= shares)[:, 0].tolist()
    return [ok or count <= looked_at for ok, count in zip(reached, counts, strict=True)]


def _keep_min_p(scores: torch.Tensor, highest: torch.Tensor, requests: list[Request]) -> torch.Tensor:
    """``scores`` without the tokens less than min_p times as probable as the likeliest; ``highest`` is [rows, 1]."""
    if not any(request.min_p for request in requests):
        return scores
    shares = scores.new_tensor([request.min_p for request in requests])[:, None]
    return scores.masked_fill(scores < highest + shares.log(), float("-inf"))
